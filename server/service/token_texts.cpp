#include "server/service/token_texts.h"

#include <optional>
#include <utility>

namespace espalier::server {
namespace {

/// `hold` and `done` are verbs: what `param` does with its bytes, and what is done with them.
ApiError too_much_text(const std::string& param, const char* hold, size_t bytes, size_t most,
                       const char* done) {
  return {ErrorKind::kInvalidRequest,
          "`" + param + "` " + hold + " " + std::to_string(bytes) + " bytes of text; at most " +
              std::to_string(most) + " are " + done + " in one request. Send several smaller ones",
          param,
          kTooLargeCode,
          {}};
}

}  // namespace

Result<std::vector<TokenizedText>> tokenize_texts(const ServedModel& model,
                                                  const TokenizeRequest& request,
                                                  const EachInput& each_input) {
  const auto prompt = prompt_text(model, request.options);
  if (!prompt) return tl::unexpected(prompt.error());
  size_t bytes = 0;
  for (const auto& text : request.texts) bytes += prompt->size() + text.size();
  if (bytes > kTokenizedBytesMax) {
    return tl::unexpected(too_much_text("inputs", "hold", bytes, kTokenizedBytesMax, "tokenized"));
  }
  std::vector<TokenizedText> tokenized(request.texts.size());
  const text::EncodeOptions options{.add_special_tokens = request.options.add_special_tokens};
  auto error = each_input(tokenized.size(), [&](size_t i) -> std::optional<ApiError> {
    tokenized[i].text = *prompt + request.texts[i];
    tokenized[i].tokens = model.tokenizer->encode_with_offsets(tokenized[i].text, options);
    return std::nullopt;
  });
  if (error) return tl::unexpected(std::move(*error));
  return tokenized;
}

Result<std::vector<std::string>> decode_ids(const ServedModel& model, const DecodeRequest& request,
                                            const EachInput& each_input) {
  // As the vocabulary writes them, which is no shorter than what they stand for.
  size_t bytes = 0;
  for (const TokenIds& ids : request.ids)
    for (const uint32_t id : ids) bytes += model.tokenizer->token_content(id).value_or("").size();
  if (bytes > kDecodedBytesMax) {
    return tl::unexpected(
        too_much_text("ids", "stand for up to", bytes, kDecodedBytesMax, "decoded"));
  }
  std::vector<std::string> texts(request.ids.size());
  auto error = each_input(texts.size(), [&](size_t i) -> std::optional<ApiError> {
    texts[i] = model.tokenizer->decode(request.ids[i], request.skip_special_tokens);
    return std::nullopt;
  });
  if (error) return tl::unexpected(std::move(*error));
  return texts;
}

}  // namespace espalier::server
