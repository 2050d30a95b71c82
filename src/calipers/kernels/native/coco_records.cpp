// SPDX-License-Identifier: Apache-2.0
#include "coco_records.h"

#include <charconv>
#include <cstring>

namespace calipers {

namespace {

constexpr int64_t MOST_WHOLE_DIGITS = 15;  // below 2^53: an id in range, or a number that a double holds
constexpr int64_t MOST_DIGITS = 19;        // of a mantissa in 64 bits
constexpr uint64_t EXACT = uint64_t{1} << 53;
constexpr double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// Reads one record; every function returns whether all was as expected, and leaves the position behind it.
class Reader {
public:
    Reader(const char* at, const char* end) : at_(at), end_(end) {}

    const char* at() const { return at_; }

    void space() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }

    bool sign(char expected) {
        space();
        if (at_ == end_ || *at_ != expected) return false;
        ++at_;
        return true;
    }

    // A key in quotes without escapes, and the colon behind it.
    uint8_t key() {
        if (!sign('"')) return 0;
        const char* first = at_;
        while (at_ < end_ && *at_ != '"') ++at_;
        const uint8_t found = known(first, at_ - first);
        if (!found || at_ == end_) return 0;
        ++at_;
        return sign(':') ? found : 0;
    }

    bool whole(int64_t& value) {
        space();
        const bool negative = at_ < end_ && *at_ == '-';
        at_ += negative;
        const char* first = at_;
        int64_t number = 0;
        while (at_ < end_ && is_digit(*at_) && at_ - first <= MOST_WHOLE_DIGITS) number = 10 * number + (*at_++ - '0');
        if (!sound_digits(first, at_ - first) || (negative && number == 0)) return false;
        value = negative ? -number : number;
        return ends_here();
    }

    bool flag(uint8_t& value) {
        int64_t number;
        if (!whole(number) || number < 0 || number > 1) return false;
        value = static_cast<uint8_t>(number);
        return true;
    }

    // A number as JSON writes it. Up to 2^53 and 10^22 both parts are exact as doubles, so that one product or quotient
    // is rounded correctly (Clinger 1990); the library does the rest.
    bool number(double& value) {
        space();
        const char* first = at_;
        const bool negative = at_ < end_ && *at_ == '-';
        at_ += negative;
        const char* digits = at_;
        uint64_t mantissa = 0;
        take_digits(mantissa);
        int64_t n_digits = at_ - digits, exponent = 0;
        if (n_digits == 0 || (n_digits > 1 && *digits == '0')) return false;
        bool is_whole = true;
        if (at_ < end_ && *at_ == '.') {
            const char* fraction = ++at_;
            take_digits(mantissa);
            exponent = fraction - at_;
            n_digits -= exponent;
            if (exponent == 0) return false;
            is_whole = false;
        }
        if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
            if (!scale(exponent)) return false;
            is_whole = false;
        }
        if (is_whole && n_digits > MOST_WHOLE_DIGITS) return false;  // msgspec reads such numbers in its own way
        if (!ends_here()) return false;
        if (n_digits > MOST_DIGITS || mantissa > EXACT || exponent < -22 || exponent > 22) return by_library(first, value);
        if (mantissa == 0 && negative) return false;  // -0 and -0.0 are not the same
        const double whole_part = static_cast<double>(mantissa);
        const double positive = exponent < 0 ? whole_part / POWERS[-exponent] : whole_part * POWERS[exponent];
        value = negative ? -positive : positive;
        return true;
    }

    bool box(double* corner) {
        return sign('[') && number(corner[0]) && sign(',') && number(corner[1]) && sign(',') && number(corner[2]) &&
               sign(',') && number(corner[3]) && sign(']');
    }

private:
    static bool is_digit(char sign) { return sign >= '0' && sign <= '9'; }

    static bool sound_digits(const char* first, int64_t n) {
        return n > 0 && n <= MOST_WHOLE_DIGITS && (n == 1 || *first != '0');
    }

    template <size_t size>
    static bool is(const char* key, const char (&name)[size]) {
        return std::memcmp(key, name, size - 1) == 0;
    }

    static uint8_t known(const char* key, int64_t length) {
        switch (length) {
            case 2: return is(key, "id") ? KEY_ID : 0;
            case 4: return is(key, "bbox") ? KEY_BOX : is(key, "area") ? KEY_AREA : 0;
            case 5: return is(key, "score") ? KEY_SCORE : 0;
            case 6: return is(key, "ignore") ? KEY_IGNORE : 0;
            case 7: return is(key, "iscrowd") ? KEY_CROWD : 0;
            case 8: return is(key, "image_id") ? KEY_IMAGE : 0;
            case 11: return is(key, "category_id") ? KEY_CATEGORY : 0;
            default: return 0;
        }
    }

    // A number is over only where a value can be: 1.5.2 and 12x are not numbers.
    bool ends_here() const {
        if (at_ == end_) return false;
        const char next = *at_;
        return next == ',' || next == '}' || next == ']' || next == ' ' || next == '\n' || next == '\t' || next == '\r';
    }

    // May overflow: then there are too many digits, which the caller looks at.
    void take_digits(uint64_t& mantissa) {
        while (at_ < end_ && is_digit(*at_)) mantissa = 10 * mantissa + static_cast<uint64_t>(*at_++ - '0');
    }

    bool scale(int64_t& exponent) {
        ++at_;
        const bool negative = at_ < end_ && *at_ == '-';
        at_ += negative || (at_ < end_ && *at_ == '+');
        const char* first = at_;
        uint64_t power = 0;
        take_digits(power);
        if (at_ == first || at_ - first > 4) return false;
        exponent += negative ? -static_cast<int64_t>(power) : static_cast<int64_t>(power);
        return true;
    }

    bool by_library(const char* first, double& value) const {
#if defined(__cpp_lib_to_chars)
        const auto result = std::from_chars(first, at_, value);
        return result.ec == std::errc() && result.ptr == at_;
#else
        (void)first, (void)value;
        return false;
#endif
    }

    const char* at_;
    const char* end_;
};

bool read_value(Reader& reader, uint8_t key, const RecordColumns& columns, int64_t row) {
    switch (key) {
        case KEY_IMAGE: return reader.whole(columns.image[row]);
        case KEY_CATEGORY: return reader.whole(columns.category[row]);
        case KEY_ID: return reader.whole(columns.id[row]);
        case KEY_BOX: return reader.box(&columns.box[4 * row]);
        case KEY_SCORE: return reader.number(columns.score[row]);
        case KEY_AREA: return reader.number(columns.area[row]);
        case KEY_CROWD: return reader.flag(columns.crowd[row]);
        case KEY_IGNORE: return reader.flag(columns.ignore[row]);
        default: return false;
    }
}

bool read_record(Reader& reader, const RecordColumns& columns, int64_t row, uint8_t required) {
    if (!reader.sign('{')) return false;
    uint8_t keys = 0;
    do {
        const uint8_t key = reader.key();
        if (!key || (keys & key) || !read_value(reader, key, columns, row)) return false;
        keys |= key;
    } while (reader.sign(','));
    columns.keys[row] = keys;
    return (keys & required) == required && reader.sign('}');
}

}  // namespace

RecordScan coco_records(Span<const uint8_t> text, int64_t at, int64_t stop, int64_t end, uint8_t required,
                        const RecordColumns& columns) {
    const char* begin = reinterpret_cast<const char*>(text.data);
    Reader reader(begin + at, begin + end);
    RecordScan scan{0, at};
    while (scan.at < stop && scan.n < columns.keys.size) {
        if (!read_record(reader, columns, scan.n, required)) return scan;
        reader.space();
        // Behind a comma there is another record: a list that ends with one is broken.
        const bool more = reader.sign(',');
        reader.space();
        const char* next = reader.at();
        if (more ? next == begin + end || *next != '{' : next != begin + end) return scan;
        ++scan.n;
        scan.at = next - begin;
        if (!more) break;
    }
    return scan;
}

}  // namespace calipers
