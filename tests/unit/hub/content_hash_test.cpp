#include "hub/content_hash.h"

#include <gtest/gtest.h>

namespace espalier::hub {
namespace {

// Of sha256sum and git hash-object.
constexpr const char* kSha256OfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kGitOfAbc = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";

bool matches(const std::string& etag, const std::string& content) {
  ContentHash hash(etag, content.size());
  for (const char c : content) hash.add({&c, 1});
  return hash.matches();
}

TEST(ContentHash, KnowsSha256AndGits) {
  EXPECT_TRUE(matches(kSha256OfAbc, "abc"));
  EXPECT_FALSE(matches(kSha256OfAbc, "abd"));
  EXPECT_FALSE(matches(kSha256OfAbc, ""));
  EXPECT_TRUE(matches(kGitOfAbc, "abc"));
  EXPECT_FALSE(matches(kGitOfAbc, "ab"));
}

TEST(ContentHash, OtherETagsSayNothing) {
  for (const char* etag : {"", "abc", "5f3a-61f20015ad", "BA7816BF"})
    EXPECT_TRUE(matches(etag, "anything")) << etag;
}

}  // namespace
}  // namespace espalier::hub
