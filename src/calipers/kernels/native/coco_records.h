// SPDX-License-Identifier: Apache-2.0
// Plain records of a COCO list, from text to columns.
#pragma once

#include "types.h"

namespace calipers {

// What a record holds, as bits of RecordColumns::keys.
enum RecordKey : uint8_t {
    KEY_IMAGE = 1,
    KEY_CATEGORY = 2,
    KEY_BOX = 4,
    KEY_SCORE = 8,
    KEY_ID = 16,
    KEY_AREA = 32,
    KEY_CROWD = 64,
    KEY_IGNORE = 128,
};

struct RecordColumns {
    Span<int64_t> image, category, id;
    Span<double> box, score, area;  // box: four numbers a record
    Span<uint8_t> crowd, ignore, keys;
};

struct RecordScan {
    int64_t n;   // records that were read
    int64_t at;  // where the next record begins; the end of the list if there is none
};

// Reads records from `at` on until one begins behind `stop`, the columns are full, the list ends at `end`, or something
// is not as it is in most files: then the record in question is left to others, who also know what is wrong with it.
// Every record that is read has the keys in `required`, none of them twice, and numbers that are rounded correctly.
RecordScan coco_records(Span<const uint8_t> text, int64_t at, int64_t stop, int64_t end, uint8_t required,
                        const RecordColumns& columns);

}  // namespace calipers
