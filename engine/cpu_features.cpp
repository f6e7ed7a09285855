#include "engine/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

namespace espalier::engine {
namespace {

constexpr std::array kAllIsas = {Isa::kScalar,     Isa::kAvx2,       Isa::kAvx512,
                                 Isa::kAvx512Vnni, Isa::kAvx512Bf16, Isa::kAmx};

#if defined(__x86_64__)
/// Leaf 7's bits that the compiler's built-in does not know by name in every version.
struct Leaf7 {
  bool amx_bf16 = false, amx_tile = false, amx_int8 = false;
};

Leaf7 read_leaf7() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {.amx_bf16 = (edx >> 22U & 1U) != 0,
          .amx_tile = (edx >> 24U & 1U) != 0,
          .amx_int8 = (edx >> 25U & 1U) != 0};
}

/// Linux gives a process the 8 KiB of tile registers only when it asks (arch_prctl(2)); threads
/// that start later inherit the permission.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Isa detect() {
  // The compiler's built-in also asks XGETBV whether the operating system saves the registers.
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::kScalar;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  if (!__builtin_cpu_supports("avx512vnni")) return Isa::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::kAvx512Vnni;
  const Leaf7 leaf7 = read_leaf7();
  if (!leaf7.amx_tile || !leaf7.amx_bf16 || !leaf7.amx_int8 || !may_use_tiles()) {
    return Isa::kAvx512Bf16;
  }
  return Isa::kAmx;
}
#else
Isa detect() { return Isa::kScalar; }
#endif

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

Isa detected_isa() {
  static const Isa isa = detect();
  return isa;
}

Isa capped_isa(Isa detected, const char* cap) {
  if (cap == nullptr || *cap == '\0') return detected;
  for (const Isa isa : kAllIsas) {
    if (name_of(isa) == cap) return std::min(isa, detected);
  }
  throw std::runtime_error(
      "ESPALIER_ISA is '" + std::string(cap).substr(0, 64) +
      "'; valid values are amx, avx512bf16, avx512vnni, avx512, avx2 and scalar");
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
