// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "binding.h"

namespace calipers {

extern PyMethodDef pairwise_methods[];  // the twins for pairs of maps

}  // namespace calipers
