// A megabyte of what is hard on tokenizers. Each takes a fraction of a second in a release build;
// the bound is wide for sanitizers and busy machines, and still far below what quadratic time would
// take.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/text/small_tokenizer.h"

namespace espalier::text {
namespace {

class HostileText : public testing::TestWithParam<const char*> {};

TEST_P(HostileText, OfAMegabyteIsEncodedInTime) {
  std::string text;
  while (text.size() < (1u << 20)) text += GetParam();
  const auto start = std::chrono::steady_clock::now();
  const auto ids = mini_tokenizer().encode(text + "x", {.add_special_tokens = false});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_GT(ids.size(), 1000u);
  for (const uint32_t id : ids) ASSERT_LT(id, 8192u);
}

INSTANTIATE_TEST_SUITE_P(, HostileText,
                         testing::Values("a", " ", "\n", "\t ", "\U0001F600", "!", "'", "1", "<",
                                         "<|im_end|", "<|im_end|>", "ab", "\u0301", "\u0316\u0301",
                                         "\u1161", "\u0F73\u0F71", "\u6F22", "\xFF", "\xE1\x80",
                                         " \n", "'s"));

}  // namespace
}  // namespace espalier::text
