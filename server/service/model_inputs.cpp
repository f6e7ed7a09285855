#include "server/service/model_inputs.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
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
  bool requested = false;  // by the request, rather than the default
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

/// Names under which models publish the prompt of an input type, the usual one first.
std::span<const char* const> prompt_names_of(InputType type) {
  static constexpr std::array kQuery{"query", "web_search_query", "s2p_query"};
  static constexpr std::array kDocument{"document", "passage"};
  static constexpr std::array kClassification{"classification"};
  static constexpr std::array kClustering{"clustering"};
  switch (type) {
    case InputType::kQuery:
      return kQuery;
    case InputType::kDocument:
      return kDocument;
    case InputType::kClassification:
      return kClassification;
    case InputType::kClustering:
      return kClustering;
  }
  return {};
}

/// The prompt that the model has for `type`; none if it has none.
Prompt prompt_of_type(const ServedModel& model, InputType type) {
  for (const char* const name : prompt_names_of(type)) {
    const auto found = model.prompts.find(name);
    if (found != model.prompts.end()) return {found->second, true};
  }
  return {"", true};
}

Result<Prompt> choose_prompt(const ServedModel& model, const InputOptions& options) {
  if (options.prompt_name && (options.instruction || options.input_type)) {
    return tl::unexpected(invalid_input(
        options.instruction ? "instruction" : "input_type",
        "`prompt_name`, `instruction` and `input_type` all say what comes before the input; send "
        "one of them"));
  }
  if (options.instruction && options.input_type.value_or(InputType::kQuery) != InputType::kQuery) {
    return tl::unexpected(invalid_input(
        "instruction", "an `instruction` is for queries; `input_type` says otherwise"));
  }
  if (options.instruction) return Prompt{"Instruct: " + *options.instruction + "\nQuery:", true};
  if (options.input_type) return prompt_of_type(model, *options.input_type);
  const std::string& name = options.prompt_name ? *options.prompt_name : model.default_prompt_name;
  const auto found = model.prompts.find(name);
  if (found != model.prompts.end()) return Prompt{found->second, options.prompt_name.has_value()};
  if (!options.prompt_name) return Prompt{};
  return tl::unexpected(
      invalid_input("prompt_name", "no such `prompt_name`; " + prompt_names(model)));
}

/// The field of the request that asked for the prompt, or for so few tokens that the default one is
/// too long.
const char* prompt_field(const InputOptions& options) {
  if (options.instruction) return "instruction";
  if (options.prompt_name) return "prompt_name";
  return options.input_type ? "input_type" : options.tokens_max_field;
}

/// Tokens that an input may have, of which the request wants `asked` at most.
size_t tokens_max(const ServedModel& model, std::optional<size_t> asked) {
  return std::min(model.max_input_tokens, asked.value_or(model.max_input_tokens));
}

bool ends_with(const TokenIds& ids, const TokenIds& suffix) {
  return ids.size() >= suffix.size() && std::equal(suffix.rbegin(), suffix.rend(), ids.rbegin());
}

/// Cuts `ids` to `limit`: what comes first and the end tokens that they close with stay, and so do
/// the `kept` at their start.
void cut(TokenIds& ids, size_t limit, Truncation truncation, size_t kept, size_t suffix) {
  const size_t surplus = ids.size() - limit;
  const auto offset = [&](size_t index) {
    return ids.begin() + static_cast<std::ptrdiff_t>(index);
  };
  const size_t first =
      truncation == Truncation::kCutStart ? std::min(kept, limit - suffix) : limit - suffix;
  ids.erase(offset(first), offset(first + surplus));
  // A text that is cut may have been megabytes long, and what is left waits for its turn.
  ids.shrink_to_fit();
}

/// The first id that the model has no embedding for: published tables may be smaller than their
/// tokenizer, which then knows special tokens that the model does not.
TokenIds::const_iterator find_unknown(const ServedModel& model, const TokenIds& ids) {
  return std::ranges::find_if(ids, [&](uint32_t id) { return id >= model.vocab_size; });
}

/// How much longer than the model takes a text may be that is still counted, to say by how much.
constexpr size_t kCountedInputs = 4;

/// Turns the inputs of one request into ids.
class EmbeddingInputs {
 public:
  EmbeddingInputs(const ServedModel& model, const EmbeddingRequest& request, Prompt prompt)
      : model_(model),
        options_(request.options),
        prompt_(std::move(prompt)),
        tokens_max_(tokens_max(model, options_.tokens_max)) {
    const text::Tokenizer& tokenizer = *model.tokenizer;
    if (!options_.add_special_tokens) return;
    prefix_ = tokenizer.prefix_tokens();
    suffix_ = tokenizer.suffix_tokens();
  }

  /// Whether there is room for anything of an input.
  bool has_room() const { return tokens_max_ > prefix_.size() + suffix_.size(); }

  bool has_prompt() const { return !prompt_.text.empty(); }

  /// Whether the prompt leaves room for anything of a text; to be asked before of() is.
  std::optional<ApiError> measure_prompt() {
    const size_t room = tokens_max_ - prefix_.size() - suffix_.size();
    const auto encoded =
        model_.tokenizer->encode_up_to(prompt_.text, room, {.add_special_tokens = false});
    prompt_tokens_ = encoded.ids.size();
    if (prompt_tokens_ < room) return std::nullopt;
    return invalid_input(prompt_field(options_),
                         "what comes before the input leaves no room for it in " +
                             std::to_string(tokens_max_) + " tokens; shorten it",
                         "context_length_exceeded");
  }

  Result<TokenIds> of(const EmbeddingInput& input, const std::string& param) const {
    const auto* const text = std::get_if<std::string>(&input);
    return text != nullptr ? text_ids(*text, param) : checked_ids(std::get<TokenIds>(input), param);
  }

 private:
  Result<TokenIds> text_ids(const std::string& text, const std::string& param) const {
    const size_t added = prefix_.size() + suffix_.size();
    size_t ids_max = tokens_max_ - added;
    if (options_.truncation == Truncation::kRefuse) ids_max = tokens_max_ * kCountedInputs - added;
    if (options_.truncation == Truncation::kCutStart) ids_max = text::Tokenizer::kAllIds;
    // One string, as sentence-transformers does: words may merge across the seam.
    text::Tokenizer::Encoded encoded = model_.tokenizer->encode_up_to(
        prompt_.text + text, ids_max, {.add_special_tokens = options_.add_special_tokens});
    if (encoded.cut && options_.truncation == Truncation::kRefuse)
      return tl::unexpected(too_long(param, ids_max, true, tokens_max_));
    if (encoded.ids.size() <= added) {
      return tl::unexpected(invalid_input(
          param, "`" + param + "` has no token; every input needs some text", "empty_input"));
    }
    if (const auto unknown = find_unknown(model_, encoded.ids); unknown != encoded.ids.end()) {
      return tl::unexpected(invalid_input(
          param, "`" + param + "` holds a special token (id " + std::to_string(*unknown) +
                     ") that this model was not trained with; take it out of the text"));
    }
    return shortened(std::move(encoded.ids), param, prefix_.size() + prompt_tokens_);
  }

  Result<TokenIds> checked_ids(const TokenIds& sent, const std::string& param) const {
    if (prompt_.requested && !prompt_.text.empty()) {
      return tl::unexpected(invalid_input(
          param,
          "token ids are used as they are: `prompt_name`, `instruction` and `input_type` are for "
          "text"));
    }
    if (sent.empty())
      return tl::unexpected(invalid_input(param, "`" + param + "` has no token id", "empty_input"));
    if (const auto unknown = find_unknown(model_, sent); unknown != sent.end()) {
      auto entry = param + "[" + std::to_string(unknown - sent.begin()) + "]";
      auto message = "`" + entry + "` is token id " + std::to_string(*unknown) +
                     "; this model's ids end at " + std::to_string(model_.vocab_size - 1);
      return tl::unexpected(invalid_input(std::move(entry), std::move(message)));
    }
    TokenIds ids = sent;
    if (!ends_with(ids, suffix_)) ids.insert(ids.end(), suffix_.begin(), suffix_.end());
    return shortened(std::move(ids), param, 0);
  }

  /// `kept`: of the tokens at the start, when the start of the text is cut off.
  Result<TokenIds> shortened(TokenIds ids, const std::string& param, size_t kept) const {
    if (ids.size() <= tokens_max_) return ids;
    if (options_.truncation == Truncation::kRefuse)
      return tl::unexpected(too_long(param, ids.size(), false, tokens_max_));
    cut(ids, tokens_max_, options_.truncation, kept, suffix_.size());
    return ids;
  }

  const ServedModel& model_;
  const InputOptions& options_;
  Prompt prompt_;
  size_t tokens_max_;
  size_t prompt_tokens_ = 0;
  TokenIds prefix_, suffix_;
};

}  // namespace

Result<std::string> prompt_text(const ServedModel& model, const InputOptions& options) {
  auto prompt = choose_prompt(model, options);
  if (!prompt) return tl::unexpected(std::move(prompt.error()));
  return std::move(prompt->text);
}

Result<std::vector<TokenIds>> embedding_token_ids(const ServedModel& model,
                                                  const EmbeddingRequest& request,
                                                  const EachInput& each_input,
                                                  TokenBudget& budget) {
  auto prompt = choose_prompt(model, request.options);
  if (!prompt) return tl::unexpected(std::move(prompt.error()));
  EmbeddingInputs inputs(model, request, std::move(*prompt));
  if (!inputs.has_room()) {
    return tl::unexpected(
        invalid_input(request.options.tokens_max_field,
                      "so few tokens leave no room for text beside the model's special tokens"));
  }
  // All inputs are texts, or none is. A client's instruction may be megabytes long.
  if (inputs.has_prompt() && std::holds_alternative<std::string>(request.inputs.front())) {
    auto error = each_input(1, [&](size_t /*only*/) { return inputs.measure_prompt(); });
    if (error) return tl::unexpected(std::move(*error));
  }
  std::vector<TokenIds> sequences(request.inputs.size());
  auto error = each_input(sequences.size(), [&](size_t i) -> std::optional<ApiError> {
    auto ids = inputs.of(request.inputs[i], request.input_name(i));
    if (!ids) return std::move(ids.error());
    sequences[i] = std::move(*ids);
    return budget.take(sequences[i].size());
  });
  if (error) return tl::unexpected(std::move(*error));
  return sequences;
}

namespace {

/// The first tokens of `query`, as a text.
std::string first_tokens(const text::Tokenizer& tokenizer, const std::string& query,
                         std::optional<size_t> tokens) {
  if (!tokens) return query;
  const text::EncodeOptions plain{.add_special_tokens = false, .match_added_tokens = false};
  const auto encoded = tokenizer.encode_up_to(query, *tokens, plain);
  return encoded.cut ? tokenizer.decode(encoded.ids, false) : query;
}

}  // namespace

Result<std::vector<TokenIds>> score_token_ids(const ServedModel& model, const ScoreRequest& request,
                                              const EachInput& each_input, TokenBudget& budget) {
  const text::RerankPrompt& prompt = *model.rerank_prompt;
  const auto instruction =
      request.instruction ? std::optional<std::string_view>(*request.instruction) : std::nullopt;
  if (instruction && !prompt.takes_instruction()) {
    return tl::unexpected(
        invalid_input("instruction", "this model's rerank template, " + prompt.name() +
                                         ", has no place for an `instruction`; leave it out"));
  }
  const bool one_query = request.queries.size() == 1;
  const size_t limit = tokens_max(model, request.tokens_max);
  const auto no_room = [&](std::string param) {
    return invalid_input(std::move(param),
                         "the query and the instruction leave no room for a document in " +
                             std::to_string(limit) + " tokens; shorten them",
                         "context_length_exceeded");
  };
  if (limit <= prompt.fixed_tokens()) {
    return tl::unexpected(
        invalid_input("truncate_prompt_tokens", "so few tokens leave no room beside the template"));
  }
  std::vector<text::RerankPrompt::Shared> shared(request.queries.size());
  TokenBudget queries_budget(budget.most(), request.query_field);
  auto error = each_input(shared.size(), [&](size_t q) -> std::optional<ApiError> {
    const auto query = first_tokens(*model.tokenizer, request.queries[q], request.query_tokens_max);
    shared[q] = prompt.prepare(instruction, query, limit);
    const auto alone = prompt.encode(shared[q], "", limit);
    // Its prompts will be no shorter.
    if (!alone.truncated && alone.ids.size() < limit) return queries_budget.take(alone.ids.size());
    return no_room(one_query ? request.query_field
                             : request.query_field + "[" + std::to_string(q) + "]");
  });
  if (error) return tl::unexpected(std::move(*error));
  std::vector<TokenIds> sequences(request.documents.size());
  error = each_input(sequences.size(), [&](size_t i) -> std::optional<ApiError> {
    auto encoded =
        prompt.encode(shared[one_query ? 0 : i], request.documents[i], limit,
                      request.document_tokens_max.value_or(text::RerankPrompt::kWholeDocument));
    if (encoded.truncated && request.truncation == Truncation::kRefuse) {
      auto param = request.single_document ? request.document_field
                                           : request.document_field + "[" + std::to_string(i) + "]";
      auto message = "`" + param +
                     "`, with the query and the template, is longer than the limit of " +
                     std::to_string(limit) +
                     " tokens. Shorten it, or send \"truncate\": true to have its end cut";
      return invalid_input(std::move(param), std::move(message), "context_length_exceeded");
    }
    if (const auto unknown = find_unknown(model, encoded.ids); unknown != encoded.ids.end()) {
      return invalid_input(
          request.single_document ? request.document_field
                                  : request.document_field + "[" + std::to_string(i) + "]",
          "the prompt of this query and document holds token " + std::to_string(*unknown) +
              ", which this model was not trained with; leave the text out that makes it");
    }
    sequences[i] = std::move(encoded.ids);
    return budget.take(sequences[i].size());
  });
  if (error) return tl::unexpected(std::move(*error));
  return sequences;
}

namespace {

/// The texts of one side of a rerank request, as a request for their embeddings.
EmbeddingRequest side_of(const ScoreRequest& request, const std::vector<std::string>& texts,
                         const std::string& field, bool single) {
  EmbeddingRequest side;
  side.inputs.assign(texts.begin(), texts.end());
  side.field = field;
  side.single = single;
  side.options.truncation = request.truncation;
  side.options.tokens_max = request.tokens_max;
  return side;
}

/// The less of what a request allows in whole, and of one side.
std::optional<size_t> least(std::optional<size_t> a, std::optional<size_t> b) {
  return a && b ? std::min(*a, *b) : (a ? a : b);
}

}  // namespace

Result<std::vector<TokenIds>> similarity_token_ids(const ServedModel& model,
                                                   const ScoreRequest& request,
                                                   const EachInput& each_input,
                                                   TokenBudget& budget) {
  EmbeddingRequest queries =
      side_of(request, request.queries, request.query_field, request.queries.size() == 1);
  queries.options.input_type = InputType::kQuery;
  queries.options.instruction = request.instruction;
  EmbeddingRequest documents =
      side_of(request, request.documents, request.document_field, request.single_document);
  documents.options.input_type = InputType::kDocument;
  for (auto [side, most, field] :
       {std::tuple{&queries, request.query_tokens_max, "max_tokens_per_query"},
        std::tuple{&documents, request.document_tokens_max, "max_tokens_per_doc"}}) {
    if (!most) continue;
    // Asked for by the request, so that it is no error.
    side->options.truncation = Truncation::kCutEnd;
    side->options.tokens_max = least(side->options.tokens_max, most);
    side->options.tokens_max_field = field;
  }
  auto sequences = embedding_token_ids(model, queries, each_input, budget);
  if (!sequences) return sequences;
  auto of_documents = embedding_token_ids(model, documents, each_input, budget);
  if (!of_documents) return of_documents;
  std::ranges::move(*of_documents, std::back_inserter(*sequences));
  return sequences;
}

}  // namespace espalier::server
