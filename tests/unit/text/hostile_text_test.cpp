// A megabyte of what is hard on tokenizers. Each takes a fraction of a second in a release build;
// the bound is wide for sanitizers and busy machines, and still far below what quadratic time would
// take.
#include <gtest/gtest.h>

#include <chrono>

#include "tests/unit/text/small_tokenizer.h"

namespace espalier::text {
namespace {

class HostileRun : public testing::TestWithParam<const char*> {};

TEST_P(HostileRun, OfAMegabyteIsEncodedInTime) {
  std::string text;
  while (text.size() < (1u << 20)) text += GetParam();
  const auto start = std::chrono::steady_clock::now();
  const auto ids = mini_tokenizer().encode(text + "x", {.add_special_tokens = false});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_GT(ids.size(), 1000u);
  for (const uint32_t id : ids) ASSERT_LT(id, 8192u);
}

TEST_P(HostileRun, OfAMegabyteGetsOffsetsInTime) {
  std::string text;
  while (text.size() < (1u << 20)) text += GetParam();
  const auto start = std::chrono::steady_clock::now();
  const auto tokens = mini_tokenizer().encode_with_offsets(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  // An answer that quotes every token's text is no larger than a few times the text.
  size_t quoted = 0;
  for (const auto& token : tokens) quoted += token.end - token.begin;
  EXPECT_GE(quoted, text.size());
  EXPECT_LE(quoted, 16 * text.size());
}

INSTANTIATE_TEST_SUITE_P(, HostileRun,
                         testing::Values("a", " ", "\n", "\t ", "\U0001F600", "!", "'", "1", "<",
                                         "<|im_end|", "<|im_end|>", "ab", "\u0301", "\u0316\u0301",
                                         "\u1161", "\u0F73\u0F71", "\u6F22", "\u7684\u6587",
                                         "\u00E9", "\xFF", "\xE1\x80", " \n", "'s"));

TEST(HostileText, OfAnyLengthIsCutInTheSameTime) {
  std::string text;
  while (text.size() < (8u << 20)) text += "word and w\u00F6rd <|im_end|> \u6F22\u5B57, ";
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) {
    const auto encoded = mini_tokenizer().encode_up_to(text, 100);
    ASSERT_TRUE(encoded.cut);
    ASSERT_EQ(encoded.ids.size(), 101u);  // and the end token
  }
  // Two minutes if the whole text were read each time.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

}  // namespace
}  // namespace espalier::text
