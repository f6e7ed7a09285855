#include "hub/gguf_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

const std::vector<std::string> kFiles = {"README.md",
                                         "M-Q4_K.gguf",
                                         "M-Q4_K_M.gguf",
                                         "M.Q8_0.gguf",
                                         "M-f16.gguf",
                                         "mmproj-f16.gguf",
                                         "sub/M-Q6_K.gguf",
                                         "M-Q2_K-00001-of-00002.gguf",
                                         "M-Q2_K-00002-of-00002.gguf"};

std::string refusal(const std::vector<std::string>& files, const std::string& wanted) {
  try {
    return "chosen: " + choose_gguf(files, wanted, "a/b");
  } catch (const HubError& error) {
    return error.what();
  }
}

TEST(GgufChoice, GoesByPathNameOrQuantisation) {
  EXPECT_EQ(choose_gguf(kFiles, "M-Q4_K.gguf", "a/b"), "M-Q4_K.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "sub/M-Q6_K.gguf", "a/b"), "sub/M-Q6_K.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "M-Q6_K.gguf", "a/b"), "sub/M-Q6_K.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "Q4_K", "a/b"), "M-Q4_K.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "q4_k_m", "a/b"), "M-Q4_K_M.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "q8_0", "a/b"), "M.Q8_0.gguf");
  EXPECT_EQ(choose_gguf(kFiles, "F16", "a/b"), "M-f16.gguf");
}

TEST(GgufChoice, RefusalsListWhatThereIs) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal(kFiles, ""), HasSubstr("parts"));
  EXPECT_THAT(refusal({"x-1.gguf", "x-2.gguf"}, ""), HasSubstr("several GGUF files"));
  EXPECT_THAT(refusal({"x-1.gguf", "x-2.gguf"}, ""), HasSubstr("a/b:x-1.gguf"));
  EXPECT_THAT(refusal({"x-1.gguf", "x-2.gguf"}, "Q8"), HasSubstr("x-1.gguf, x-2.gguf"));
  EXPECT_THAT(refusal(kFiles, "Q4"), HasSubstr("no GGUF file 'Q4'"));
  EXPECT_THAT(refusal(kFiles, "Q2_K"), HasSubstr("parts"));
  EXPECT_THAT(refusal({"README.md"}, ""), HasSubstr("has no GGUF file"));
  EXPECT_THAT(refusal({"a/x-Q8_0.gguf", "b/x-Q8_0.gguf"}, "Q8_0"), HasSubstr("several"));
  EXPECT_EQ(refusal({"x.gguf", "mmproj.gguf"}, ""), "chosen: x.gguf");
}

}  // namespace
}  // namespace espalier::hub
