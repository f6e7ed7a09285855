#include "server/service/model_inputs.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace espalier::server {
namespace {

ApiError invalid_input(std::string param, std::string message, std::string code = {}) {
  return {ErrorKind::kInvalidRequest, std::move(message), std::move(param), std::move(code), {}};
}

/// `cut`: it has even more tokens than that.
ApiError too_long(std::string param, size_t tokens, bool cut, size_t tokens_max) {
  auto message = "`" + param + "` is " + (cut ? "more than " : "") + std::to_string(tokens) +
                 " tokens long; this model takes at most " + std::to_string(tokens_max) +
                 ". Shorten it, or send \"truncate\": true to have its end cut";
  return invalid_input(std::move(param), std::move(message), "context_length_exceeded");
}

/// What is put before every text of a request.
struct Prompt {
  std::string text;
  bool requested = false;  // by the request, rather than the model's default
};

std::string prompt_names(const ServedModel& model) {
  if (model.prompts.empty()) return "this model has none";
  std::string names = "this model has ";
  const char* separator = "";
  for (const auto& [name, text] : model.prompts) {
    names += separator + ("\"" + name + "\"");
    separator = ", ";
  }
  return names;
}

Result<Prompt> choose_prompt(const ServedModel& model, const EmbeddingRequest& request) {
  if (request.prompt_name && request.instruction) {
    return tl::unexpected(
        invalid_input("instruction", "send `prompt_name` or `instruction`, not both"));
  }
  if (request.instruction) return Prompt{"Instruct: " + *request.instruction + "\nQuery:", true};
  const std::string& name = request.prompt_name ? *request.prompt_name : model.default_prompt_name;
  const auto found = model.prompts.find(name);
  if (found != model.prompts.end()) return Prompt{found->second, request.prompt_name.has_value()};
  if (!request.prompt_name) return Prompt{};
  return tl::unexpected(
      invalid_input("prompt_name", "no such `prompt_name`; " + prompt_names(model)));
}

/// Cuts `ids` to `tokens_max`, keeping the first ones and the end tokens that they close with.
void cut_keeping_suffix(TokenIds& ids, const TokenIds& suffix, size_t tokens_max) {
  ids.resize(tokens_max - suffix.size());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
}

bool ends_with(const TokenIds& ids, const TokenIds& suffix) {
  return ids.size() >= suffix.size() && std::equal(suffix.rbegin(), suffix.rend(), ids.rbegin());
}

/// The first id that the model has no embedding for: published tables may be smaller than their
/// tokenizer, which then knows special tokens that the model does not.
TokenIds::const_iterator find_unknown(const ServedModel& model, const TokenIds& ids) {
  return std::ranges::find_if(ids, [&](uint32_t id) { return id >= model.vocab_size; });
}

/// How much longer than the model takes a text may be that is still counted, to say by how much.
constexpr size_t kCountedInputs = 4;

/// The ids of a text, more than the model takes only if it must not be cut.
Result<TokenIds> text_ids(const ServedModel& model, const Prompt& prompt, const std::string& text,
                          bool truncate, const std::string& param) {
  const text::Tokenizer& tokenizer = *model.tokenizer;
  const size_t added = tokenizer.prefix_tokens().size() + tokenizer.suffix_tokens().size();
  const size_t ids_max = model.max_input_tokens * (truncate ? 1 : kCountedInputs) - added;
  // One string, as sentence-transformers does: words may merge across the seam.
  text::Tokenizer::Encoded encoded = tokenizer.encode_up_to(prompt.text + text, ids_max);
  TokenIds& ids = encoded.ids;
  if (encoded.cut && !truncate) {
    return tl::unexpected(too_long(param, ids_max, true, model.max_input_tokens));
  }
  if (ids.size() <= added) {
    return tl::unexpected(
        invalid_input(param, "`" + param + "` has no token; every input needs some text"));
  }
  if (const auto unknown = find_unknown(model, ids); unknown != ids.end()) {
    return tl::unexpected(invalid_input(
        param, "`" + param + "` holds a special token (id " + std::to_string(*unknown) +
                   ") that this model was not trained with; take it out of the text"));
  }
  return std::move(ids);
}

Result<TokenIds> checked_ids(const ServedModel& model, const Prompt& prompt, const TokenIds& sent,
                             const std::string& param) {
  if (prompt.requested && !prompt.text.empty()) {
    return tl::unexpected(invalid_input(
        param, "token ids are used as they are: `prompt_name` and `instruction` are for text"));
  }
  if (sent.empty()) return tl::unexpected(invalid_input(param, "`" + param + "` has no token id"));
  if (const auto unknown = find_unknown(model, sent); unknown != sent.end()) {
    auto entry = param + "[" + std::to_string(unknown - sent.begin()) + "]";
    auto message = "`" + entry + "` is token id " + std::to_string(*unknown) +
                   "; this model's ids end at " + std::to_string(model.vocab_size - 1);
    return tl::unexpected(invalid_input(std::move(entry), std::move(message)));
  }
  TokenIds ids = sent;
  const auto& suffix = model.tokenizer->suffix_tokens();
  if (!ends_with(ids, suffix)) ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

}  // namespace

Result<std::vector<TokenIds>> embedding_token_ids(const ServedModel& model,
                                                  const EmbeddingRequest& request,
                                                  const EachInput& each_input) {
  auto prompt = choose_prompt(model, request);
  if (!prompt) return tl::unexpected(std::move(prompt.error()));
  std::vector<TokenIds> sequences(request.inputs.size());
  auto error = each_input(sequences.size(), [&](size_t i) -> std::optional<ApiError> {
    const EmbeddingInput& input = request.inputs[i];
    const std::string param = request.single ? "input" : "input[" + std::to_string(i) + "]";
    const auto* const text = std::get_if<std::string>(&input);
    auto ids = text != nullptr ? text_ids(model, *prompt, *text, request.truncate, param)
                               : checked_ids(model, *prompt, std::get<TokenIds>(input), param);
    if (!ids) return std::move(ids.error());
    if (ids->size() > model.max_input_tokens) {
      if (!request.truncate) return too_long(param, ids->size(), false, model.max_input_tokens);
      cut_keeping_suffix(*ids, model.tokenizer->suffix_tokens(), model.max_input_tokens);
    }
    sequences[i] = std::move(*ids);
    return std::nullopt;
  });
  if (error) return tl::unexpected(std::move(*error));
  return sequences;
}

Result<std::vector<TokenIds>> rerank_token_ids(const ServedModel& model,
                                               const RerankRequest& request,
                                               const EachInput& each_input) {
  const text::RerankPrompt& prompt = *model.rerank_prompt;
  const std::string_view instruction = request.instruction ? std::string_view(*request.instruction)
                                                           : text::kDefaultRerankInstruction;
  std::optional<text::RerankPrompt::Shared> shared;
  auto error = each_input(1, [&](size_t) -> std::optional<ApiError> {
    shared = prompt.prepare(instruction, request.query, model.max_input_tokens);
    if (!prompt.encode(*shared, "", model.max_input_tokens).truncated) return std::nullopt;
    return invalid_input("query",
                         "`query` and `instruction` leave no room for a document in the model's " +
                             std::to_string(model.max_input_tokens) + " tokens; shorten them",
                         "context_length_exceeded");
  });
  if (error) return tl::unexpected(std::move(*error));
  std::vector<TokenIds> sequences(request.documents.size());
  error = each_input(sequences.size(), [&](size_t i) -> std::optional<ApiError> {
    auto encoded = prompt.encode(*shared, request.documents[i], model.max_input_tokens);
    if (encoded.truncated && !request.truncate) {
      auto param = "documents[" + std::to_string(i) + "]";
      auto message = "`" + param +
                     "`, with the query and the template, is longer than the model's " +
                     std::to_string(model.max_input_tokens) +
                     " tokens. Shorten it, or send \"truncate\": true to have its end cut";
      return invalid_input(std::move(param), std::move(message), "context_length_exceeded");
    }
    sequences[i] = std::move(encoded.ids);
    return std::nullopt;
  });
  if (error) return tl::unexpected(std::move(*error));
  return sequences;
}

}  // namespace espalier::server
