#include "server/api/tei_tokenize_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fake_model.h"

namespace espalier::server {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr uint32_t kEndOfText = 8187;

template <typename Parsed>
std::string refused(const Result<Parsed>& result) {
  if (result) return "nothing";
  EXPECT_EQ(http_status(result.error().kind), 400);
  return result.error().param;
}

json rendered(const std::string& text) {
  const auto& tokenizer = mini_tokenizer();
  return json::parse(render_tokens({{text, tokenizer.encode_with_offsets(text)}}, tokenizer));
}

TEST(TokenizeRequest, IsATextOrTexts) {
  const auto request = parse_tokenize(R"({"inputs":"a","add_special_tokens":false})");
  ASSERT_TRUE(request);
  EXPECT_THAT(request->texts, ElementsAre("a"));
  EXPECT_FALSE(request->options.add_special_tokens);
  EXPECT_THAT(parse_tokenize(R"({"inputs":["a","",{"text":"b"}]})")->texts,
              ElementsAre("a", "", "b"));
  EXPECT_EQ(refused(parse_tokenize(R"({"inputs":[5]})")), "inputs[0]");
  EXPECT_EQ(refused(parse_tokenize(R"({"inputs":null})")), "inputs");
  EXPECT_EQ(refused(parse_tokenize("{}")), "inputs");
}

TEST(TokenizeAnswer, OffsetsSliceTheTextsBytes) {
  const std::string text = "a tree — naïve 今日は 👍 <|im_end|>";
  const json tokens = rendered(text)[0];
  std::string joined;
  size_t covered = 0;
  for (const json& token : tokens) {
    if (token["special"] == true) continue;
    const size_t start = token["start"];
    const size_t stop = token["stop"];
    EXPECT_EQ(token["text"], text.substr(start, stop - start));
    if (stop > covered) joined += text.substr(covered, stop - covered);
    covered = std::max(covered, stop);
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(tokens.back()["id"], kEndOfText);
  EXPECT_EQ(tokens.back()["text"], "<|endoftext|>");
  EXPECT_TRUE(tokens.back()["start"].is_null() && tokens.back()["stop"].is_null());
}

TEST(TokenizeAnswer, IsJsonOfWhateverBytes) {
  for (const std::string text : {"", "\xff\xfe", "a\xe4\xbb", "\x01\"\\", "\xed\xa0\x80"}) {
    const auto& tokenizer = mini_tokenizer();
    EXPECT_TRUE(
        json::accept(render_tokens({{text, tokenizer.encode_with_offsets(text)}}, tokenizer)));
  }
  EXPECT_EQ(render_tokens({}, mini_tokenizer()), "[]");
  EXPECT_EQ(render_tokens({{"", {}}, {"", {}}}, mini_tokenizer()), "[[],[]]");
}

TEST(DecodeRequest, IsOneListOrMany) {
  EXPECT_THAT(parse_decode(R"({"ids":[1,2]})")->ids, ElementsAre(TokenIds{1, 2}));
  EXPECT_TRUE(parse_decode(R"({"ids":[1,2]})")->skip_special_tokens);
  const auto request = parse_decode(R"({"ids":[[1],[2]],"skip_special_tokens":false})");
  EXPECT_THAT(request->ids, ElementsAre(TokenIds{1}, TokenIds{2}));
  EXPECT_FALSE(request->skip_special_tokens);
}

TEST(DecodeRequest, OfAWrongTypeIsNamed) {
  for (const char* ids : {"\"a\"", "[]", "null", "{}", "5", R"(["a"])"})
    EXPECT_EQ(refused(parse_decode(R"({"ids":)" + std::string(ids) + "}")), "ids") << ids;
  EXPECT_EQ(refused(parse_decode(R"({"ids":[1,-1]})")), "ids[1]");
  EXPECT_EQ(refused(parse_decode(R"({"ids":[[1],[4294967296]]})")), "ids[1][0]");
  EXPECT_EQ(refused(parse_decode(R"({"ids":[[1],[]]})")), "ids[1]");
  EXPECT_EQ(refused(parse_decode(R"({"ids":[1],"skip_special_tokens":1})")), "skip_special_tokens");
}

TEST(DecodeAnswer, IsAnArrayOfTexts) {
  EXPECT_EQ(render_texts({"a\"b", ""}), R"(["a\"b",""])");
  EXPECT_EQ(render_texts({}), "[]");
}

}  // namespace
}  // namespace espalier::server
