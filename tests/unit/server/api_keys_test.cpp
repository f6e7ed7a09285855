#include "server/access/api_keys.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace espalier::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ApiKeys keys_of(const std::string& text, bool share = false) {
  ApiKeys keys(share);
  keys.parse(text, "keys.txt");
  return keys;
}

std::string refusal_of(const std::string& text) {
  try {
    keys_of(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ApiKeys, EachIsATenantAndAClientOfItsOwn) {
  const auto keys = keys_of("# who may ask\n\n shop  abc\t2.5\r\nwiki def");
  ASSERT_EQ(keys.size(), 2U);
  const auto shop = keys.identify("Bearer abc");
  const auto wiki = keys.identify("Bearer def");
  ASSERT_TRUE(shop && wiki);
  EXPECT_NE(shop->tenant, 0U);
  EXPECT_NE(wiki->tenant, 0U);
  EXPECT_NE(shop->tenant, wiki->tenant);
  EXPECT_NE(shop->client, wiki->client);
  EXPECT_EQ(shop->weight, 2.5);
  EXPECT_EQ(wiki->weight, 1);
}

TEST(ApiKeys, ThatShareAreOneTenantButStaySeparateClients) {
  const auto keys = keys_of("shop abc\nwiki def\n", true);
  EXPECT_EQ(keys.identify("Bearer abc")->tenant, 0U);
  EXPECT_EQ(keys.identify("Bearer def")->tenant, 0U);
  EXPECT_NE(keys.identify("Bearer abc")->client, keys.identify("Bearer def")->client);
}

TEST(ApiKeys, SchemeIsReadInAnyCaseAndTheKeyAsItIs) {
  const auto keys = keys_of("shop aBc");
  EXPECT_TRUE(keys.identify("bearer aBc"));
  EXPECT_TRUE(keys.identify("BEARER   aBc"));
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer abc", "Bearer aB", "Bearer aBcd",
                            "Basic aBc", "aBc", "Bearer aBc x"}) {
    const auto identity = keys.identify(wrong);
    ASSERT_FALSE(identity) << wrong;
    EXPECT_EQ(identity.error().kind, ErrorKind::kUnauthorized);
    EXPECT_EQ(identity.error().code, "invalid_api_key");
    EXPECT_THAT(identity.error().message, Not(HasSubstr("aBc")));
  }
}

TEST(ApiKeys, MistakesNameFileLineAndMendButNeverTheKey) {
  EXPECT_THAT(refusal_of("shop"), AllOf(HasSubstr("keys.txt, line 1"), HasSubstr("NAME KEY")));
  EXPECT_THAT(refusal_of("a s3cret\nb s3cret"),
              AllOf(HasSubstr("line 2"), HasSubstr("`a`"), Not(HasSubstr("s3cret"))));
  EXPECT_THAT(refusal_of("a k1\na k2"), AllOf(HasSubstr("line 2"), HasSubstr("twice")));
  EXPECT_THAT(refusal_of("a k 1 2"), HasSubstr("behind the weight"));
  EXPECT_THAT(refusal_of("a k\xc3\xa9"), HasSubstr("ASCII"));
  for (const char* weight : {"0", "-1", "nan", "inf", "1e9", "1x", "heavy"})
    EXPECT_THAT(refusal_of(std::string("a k ") + weight), HasSubstr("from 0.001 to 1000"))
        << weight;
}

TEST(ApiKeys, LinesThatEndInAdminAreAdmins) {
  const auto keys = keys_of("shop abc 2\nops def admin\nboss ghi 3 admin");
  EXPECT_FALSE(keys.identify("Bearer abc")->admin);
  EXPECT_TRUE(keys.identify("Bearer def")->admin);
  EXPECT_TRUE(keys.identify("Bearer ghi")->admin);
  EXPECT_EQ(keys.identify("Bearer ghi")->weight, 3);
  EXPECT_EQ(keys.identify("Bearer def")->name, "ops");
  EXPECT_THAT(refusal_of("a k admin 3"), HasSubstr("behind the weight"));
  EXPECT_THAT(refusal_of("a k 1 root"), HasSubstr("behind the weight"));
}

TEST(ApiKeys, OnesOfOptionsAreNamedAfterThem) {
  auto keys = keys_of("shop abc");
  keys.add("--api-key", "c2VjcmV0==", false);
  keys.add("--admin-key", "boss", true);
  EXPECT_THAT(keys.names(), testing::ElementsAre("shop", "api-key-2", "admin-key-3"));
  EXPECT_EQ(keys.identify("Bearer c2VjcmV0==")->name, "api-key-2");
  EXPECT_TRUE(keys.identify("Bearer boss")->admin);
  for (const char* wrong : {"", "two words", "abc"}) {
    try {
      keys.add("--api-key", wrong, false);
      FAIL() << wrong;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--api-key: "));
    }
  }
}

TEST(ApiKeys, FileWithoutAnyKeyIsRefused) {
  EXPECT_THAT(refusal_of(""), HasSubstr("keys.txt holds no key"));
  EXPECT_THAT(refusal_of("# none yet\n\n"), HasSubstr("holds no key"));
}

TEST(ApiKeys, FileThatCannotBeReadIsNamed) {
  for (const std::string file : {"/nonexistent/keys", "/"}) {
    try {
      ApiKeys(false).load(file);
      FAIL() << file;
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("--api-key-file " + file));
    }
  }
}

}  // namespace
}  // namespace espalier::server
