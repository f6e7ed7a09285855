#include "engine/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

namespace espalier::engine {
namespace {

constexpr std::array kAllIsas = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Isa detected_isa() {
#if defined(__x86_64__)
  // The compiler's built-in also asks XGETBV whether the operating system saves the registers.
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx2 && avx512) return Isa::kAvx512;
  if (avx2) return Isa::kAvx2;
#endif
  return Isa::kScalar;
}

Isa capped_isa(Isa detected, const char* cap) {
  if (cap == nullptr || *cap == '\0') return detected;
  for (const Isa isa : kAllIsas) {
    if (name_of(isa) == cap) return std::min(isa, detected);
  }
  throw std::runtime_error("ESPALIER_ISA is '" + std::string(cap).substr(0, 64) +
                           "'; valid values are avx512, avx2 and scalar");
}

Isa usable_isa() {
  static const Isa isa = capped_isa(detected_isa(), std::getenv("ESPALIER_ISA"));
  return isa;
}

std::string isa_description() {
  std::string text(name_of(usable_isa()));
  if (usable_isa() != detected_isa()) {
    text += " (ESPALIER_ISA; the CPU has " + std::string(name_of(detected_isa())) + ")";
  }
  return text;
}

}  // namespace espalier::engine
