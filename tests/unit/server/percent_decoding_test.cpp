#include "server/api/percent_decoding.h"

#include <gtest/gtest.h>

namespace espalier::server {
namespace {

TEST(PercentDecoding, TripletsAreBytes) {
  EXPECT_EQ(percent_decoded("Qwen%2FQwen3"), "Qwen/Qwen3");
  EXPECT_EQ(percent_decoded("%41%7a%7A"), "Azz");
  EXPECT_EQ(percent_decoded("%e4%BB%8a"), "今");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(percent_decoded("%FF"), "\xFF");
}

TEST(PercentDecoding, WhatIsNoTripletStays) {
  for (const char* text :
       {"", "a", "%", "%4", "a%", "%%", "%g1", "%1g", "% 1", "%+1", "%-1", "%0x", "+", "a/b"}) {
    EXPECT_EQ(percent_decoded(text), text);
  }
}

TEST(PercentDecoding, IsDoneOnce) {
  EXPECT_EQ(percent_decoded("%2541"), "%41");
  EXPECT_EQ(percent_decoded("%%41"), "%A");
  EXPECT_EQ(percent_decoded("%25"), "%");
}

}  // namespace
}  // namespace espalier::server
