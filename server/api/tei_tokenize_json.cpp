#include "server/api/tei_tokenize_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "server/api/input_options_json.h"
#include "server/api/json_request.h"
#include "server/api/text_inputs_json.h"

namespace espalier::server {
namespace {

constexpr auto kTokenizeMembers =
    joined_members(std::array<std::string_view, 3>{"inputs", "text", "model"}, kInputOptionMembers);
constexpr std::array<std::string_view, 3> kDecodeMembers{"ids", "skip_special_tokens", "model"};

void append_token(const text::TokenWithOffsets& token, const std::string& text,
                  const text::Tokenizer& tokenizer, std::string& out) {
  out += R"({"id":)" + std::to_string(token.id) + R"(,"text":)";
  const auto own = token.special
                       ? tokenizer.token_content(token.id).value_or("")
                       : std::string_view(text).substr(token.begin, token.end - token.begin);
  append_json_string(own, out);
  out += R"(,"special":)" + std::string(token.special ? "true" : "false");
  if (token.special) {
    out += R"(,"start":null,"stop":null})";
  } else {
    out += R"(,"start":)" + std::to_string(token.begin) + R"(,"stop":)" +
           std::to_string(token.end) + "}";
  }
}

}  // namespace

Result<TokenizeRequest> parse_tokenize(std::string_view body) {
  const auto object = parse_json_object(body, kTokenizeMembers);
  if (!object) return tl::unexpected(object.error());
  const auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(model.error());
  auto options = parse_input_options(*object);
  if (!options) return tl::unexpected(std::move(options.error()));
  if (options->tokens_max) {
    return tl::unexpected(
        invalid_param("truncate_prompt_tokens", "texts are tokenized whole here; nothing is cut"));
  }
  auto texts = parse_texts(*object, "inputs", true);
  if (!texts) return tl::unexpected(std::move(texts.error()));
  return TokenizeRequest{std::move(texts->texts), model->value_or(""), std::move(*options)};
}

std::string render_tokens(const std::vector<TokenizedText>& texts,
                          const text::Tokenizer& tokenizer) {
  std::string out = "[";
  for (const TokenizedText& text : texts) {
    if (out.size() > 1) out += ',';
    out += '[';
    bool first = true;
    for (const auto& token : text.tokens) {
      if (!std::exchange(first, false)) out += ',';
      append_token(token, text.text, tokenizer, out);
    }
    out += ']';
  }
  out += ']';
  return out;
}

Result<DecodeRequest> parse_decode(std::string_view body) {
  const auto object = parse_json_object(body, kDecodeMembers);
  if (!object) return tl::unexpected(object.error());
  const auto model = optional_string(*object, "model");
  if (!model) return tl::unexpected(model.error());
  const auto skip = optional_bool(*object, "skip_special_tokens");
  if (!skip) return tl::unexpected(skip.error());
  auto parsed = parse_inputs(*object, "ids");
  if (!parsed) return tl::unexpected(std::move(parsed.error()));
  DecodeRequest request;
  request.model = model->value_or("");
  request.skip_special_tokens = skip->value_or(true);
  for (auto& input : parsed->inputs) {
    auto* const ids = std::get_if<TokenIds>(&input);
    if (ids == nullptr) {
      return tl::unexpected(invalid_param(
          "ids", "`ids` must be an array of token ids or an array of such arrays, not text"));
    }
    request.ids.push_back(std::move(*ids));
  }
  return request;
}

std::string render_texts(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) {
    if (out.size() > 1) out += ',';
    append_json_string(text, out);
  }
  out += ']';
  return out;
}

}  // namespace espalier::server
