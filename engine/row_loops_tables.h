// The tables that row_loops.cpp becomes, one an instruction set. Internal to row_loops*.cpp.
#pragma once

#include "engine/row_loops.h"

namespace espalier::engine {

extern const RowLoops kScalarRowLoops;
#if defined(__x86_64__)
extern const RowLoops kAvx2RowLoops;
extern const RowLoops kAvx512RowLoops;
#endif

}  // namespace espalier::engine
