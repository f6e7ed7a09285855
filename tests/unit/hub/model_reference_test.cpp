#include "hub/model_reference.h"

#include <gtest/gtest.h>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

TEST(ModelReference, HasARepositoryARevisionAndAFile) {
  const auto plain = parse_reference("Qwen/Qwen3-Embedding-0.6B");
  EXPECT_EQ(plain.repository, "Qwen/Qwen3-Embedding-0.6B");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.gguf, "");
  EXPECT_EQ(plain.text(), "Qwen/Qwen3-Embedding-0.6B");

  const auto all = parse_reference("a_b/c.d@refs/pr/1:sub/x-Q8_0.gguf");
  EXPECT_EQ(all.repository, "a_b/c.d");
  EXPECT_EQ(all.revision, "refs/pr/1");
  EXPECT_EQ(all.gguf, "sub/x-Q8_0.gguf");
  EXPECT_EQ(all.text(), "a_b/c.d@refs/pr/1:sub/x-Q8_0.gguf");
  EXPECT_EQ(parse_reference("a/b:Q8_0").revision, "main");
}

TEST(ModelReference, IsRefusedIfItCouldBeAnythingElse) {
  for (const char* text :
       {"",       "a",        "/a/b",     "a/b/",     "a/b/c",     "a/",     "/b",
        "../b",   "a/..",     "a/.b",     "a/b.",     "-a/b",      "a/b-",   "a--x/b",
        "a/b--c", "a/b..c",   "a/b c",    "a/b\n",    "a/b@",      "a/b@..", "a/b@x/../y",
        "a/b@/x", "a/b@x/",   "a/b@x//y", "a/b@-x",   "a/b@x y",   "a/b:",   "a/b:../x",
        "a/b:/x", "a/b:x/..", "a/b:x\\y", "a/b:x\ny", "a/\xc3\xa4"}) {
    EXPECT_THROW(parse_reference(text), HubError) << text;
  }
  EXPECT_THROW(parse_reference(std::string(97, 'a') + "/b"), HubError);
  EXPECT_THROW(parse_reference("a/b@" + std::string(201, 'a')), HubError);
  EXPECT_THROW(parse_reference(std::string_view("a/b\0c", 5)), HubError);
}

TEST(ModelReference, LooksLikeOneOnlyIfItIsNoPath) {
  for (const char* text : {"a/b", "a/b@x", "a/b:Q8_0", "a/b@", "a/b@..:"})
    EXPECT_TRUE(looks_like_reference(text)) << text;
  for (const char* text : {"a", "./a", "../a", "/a", "a/", "a/b/c", "~/a", "a/b/", ".a/b"})
    EXPECT_FALSE(looks_like_reference(text)) << text;
}

TEST(ModelReference, ACommitHas40Digits) {
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789abcdef0123456789abcdef0123456"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("main"));
}

TEST(ModelReference, SafePathsStayInTheirFolder) {
  for (const char* path : {"a", "a/b.c", "a b/c", "1_Pooling/config.json", "...", "a..b"})
    EXPECT_TRUE(is_safe_path(path)) << path;
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\\b", "a\nb", "a\x7f"})
    EXPECT_FALSE(is_safe_path(path)) << path;
  EXPECT_FALSE(is_safe_path(std::string(300, 'a')));
}

}  // namespace
}  // namespace espalier::hub
