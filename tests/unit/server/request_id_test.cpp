#include "server/http/request_id.h"

#include <gmock/gmock.h>

#include <set>
#include <thread>
#include <vector>

namespace espalier::server {
namespace {

TEST(RequestId, VisibleAsciiIsSound) {
  for (const char* id : {"a", "7f3a-Z_.~", "00-4bf92f-01", "{id}", "a'b", "<b>"})
    EXPECT_TRUE(is_sound_request_id(id)) << id;
  EXPECT_TRUE(is_sound_request_id(std::string(128, 'x')));
}

TEST(RequestId, WhatCouldDoHarmInALogOrAHeaderIsNot) {
  for (const std::string id : {"", " ", "a b", "a\tb", "a\nb", "a\r\nX: y", "a\"b", "a\\b", "é",
                               "a\x7f", "a\x80", "\xff"}) {
    EXPECT_FALSE(is_sound_request_id(id)) << id;
  }
  EXPECT_FALSE(is_sound_request_id(std::string("a\0b", 3)));
  EXPECT_FALSE(is_sound_request_id(std::string(129, 'x')));
}

TEST(RequestId, NewOnesAreSoundAndNeverTheSame) {
  EXPECT_THAT(new_request_id(), testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_TRUE(is_sound_request_id(new_request_id()));
  std::vector<std::vector<std::string>> made(4);
  std::vector<std::thread> threads;
  for (auto& ids : made) {
    threads.emplace_back([&ids] {
      for (int i = 0; i < 5000; ++i) ids.push_back(new_request_id());
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& ids : made) all.insert(ids.begin(), ids.end());
  EXPECT_EQ(all.size(), 20'000U);
}

}  // namespace
}  // namespace espalier::server
