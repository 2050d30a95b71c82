// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "binding.h"

namespace calipers {

extern PyMethodDef run_methods[];  // the twins for runs

}  // namespace calipers
