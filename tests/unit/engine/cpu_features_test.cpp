#include "engine/cpu_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "engine/sgemm.h"

namespace espalier::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CpuFeatures, WithoutACapTheCpuDecides) {
  EXPECT_EQ(capped_isa(Isa::kAvx2, nullptr), Isa::kAvx2);
  EXPECT_EQ(capped_isa(Isa::kAvx512, ""), Isa::kAvx512);
}

TEST(CpuFeatures, ACapLowersButNeverRaises) {
  EXPECT_EQ(capped_isa(Isa::kAvx512, "avx2"), Isa::kAvx2);
  EXPECT_EQ(capped_isa(Isa::kAmx, "avx512vnni"), Isa::kAvx512Vnni);
  EXPECT_EQ(capped_isa(Isa::kAmx, "avx512bf16"), Isa::kAvx512Bf16);
  EXPECT_EQ(capped_isa(Isa::kAmx, "amx"), Isa::kAmx);
  EXPECT_EQ(capped_isa(Isa::kAvx512, "scalar"), Isa::kScalar);
  EXPECT_EQ(capped_isa(Isa::kAvx2, "avx512"), Isa::kAvx2);
  EXPECT_EQ(capped_isa(Isa::kScalar, "avx512"), Isa::kScalar);
}

TEST(CpuFeatures, AnUnknownCapIsRefusedWithTheValidOnes) {
  EXPECT_THAT(
      [] { capped_isa(Isa::kAvx512, "AVX-512"); },
      ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("ESPALIER_ISA"), HasSubstr("AVX-512"),
                                              HasSubstr("avx512, avx2 and scalar"))));
}

TEST(CpuFeatures, TheDescriptionNamesWhatIsUsed) {
  EXPECT_THAT(isa_description(), HasSubstr(std::string(name_of(usable_isa()))));
  EXPECT_LE(usable_isa(), detected_isa());
}

TEST(OpenBlas, UsesTheKernelSetOfThisCpu) {
  const char* const chosen = std::getenv("OPENBLAS_CORETYPE");
  const std::string by_user = chosen != nullptr ? chosen : "";
  const std::string in_use = openblas_kernel_set();
  if (!by_user.empty()) {
    EXPECT_EQ(in_use, by_user);
  } else if (usable_isa() >= Isa::kAvx512) {
    EXPECT_EQ(in_use, "SkylakeX");
  } else if (usable_isa() == Isa::kAvx2) {
    EXPECT_EQ(in_use, "Haswell");
  } else {
    EXPECT_FALSE(in_use.empty());
  }
}

}  // namespace
}  // namespace espalier::engine
