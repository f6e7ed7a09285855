// The tables that attention_loops_*.cpp become, one an instruction set. Internal to them.
#pragma once

#include "engine/attention_loops.h"

namespace espalier::engine {

/// Of one instruction set that computes in f32 alone.
struct F32AttentionLoops {
  AttentionLoops f32;
  AttentionLoops bf16;  // widens everything to f32
};

extern const F32AttentionLoops kScalarAttentionLoops;
#if defined(__x86_64__)
extern const F32AttentionLoops kAvx2AttentionLoops;
extern const F32AttentionLoops kAvx512AttentionLoops;
extern const AttentionLoops kAvx512Bf16AttentionLoops;
extern const AttentionLoops kAmxAttentionLoops;
#endif

}  // namespace espalier::engine
