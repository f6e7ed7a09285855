#include "engine/attention_loops.h"

#include <stdexcept>
#include <string>

#include "engine/attention_loops_tables.h"

namespace espalier::engine {
namespace {

const F32AttentionLoops& f32_loops_for(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::kAvx512) return kAvx512AttentionLoops;
  if (isa >= Isa::kAvx2) return kAvx2AttentionLoops;
#endif
  (void)isa;
  return kScalarAttentionLoops;
}

}  // namespace

const AttentionLoops& attention_loops_for(Isa isa, NumberFormat format) {
  if (format == NumberFormat::kF32) return f32_loops_for(isa).f32;
  if (format != NumberFormat::kBf16) {
    throw std::invalid_argument("attention has no loops for " + std::string(name_of(format)));
  }
#if defined(__x86_64__)
  if (isa >= Isa::kAmx) return kAmxAttentionLoops;
  if (isa >= Isa::kAvx512Bf16) return kAvx512Bf16AttentionLoops;
#endif
  return f32_loops_for(isa).bf16;
}

}  // namespace espalier::engine
