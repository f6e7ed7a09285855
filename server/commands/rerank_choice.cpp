#include "server/commands/rerank_choice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "server/commands/score_template_files.h"

namespace espalier::commands {
namespace {

/// zerank's authors divide its logit by this before the sigmoid.
constexpr double kZerankScale = 5;

/// The tokens whose logits say whether a document is relevant.
struct AnswerTokens {
  uint32_t positive = 0;
  std::optional<uint32_t> negative;
};

uint32_t token_of(const text::Tokenizer& tokenizer, const std::string& token) {
  if (const auto id = tokenizer.token_id(token)) return *id;
  // Vocabularies spell some characters in their own way.
  const auto ids = tokenizer.encode(token, {.add_special_tokens = false});
  if (ids.size() != 1) throw std::runtime_error("its tokenizer has no token `" + token + "`");
  return ids.front();
}

/// --rerank-tokens TRUE[/FALSE].
AnswerTokens parse_tokens(const text::Tokenizer& tokenizer, const std::string& given) {
  const size_t slash = given.find('/', 1);
  try {
    AnswerTokens tokens{token_of(tokenizer, given.substr(0, slash)), std::nullopt};
    if (slash != std::string::npos) tokens.negative = token_of(tokenizer, given.substr(slash + 1));
    return tokens;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error("--rerank-tokens " + given + ": " + error.what());
  }
}

/// What the files say; nothing of a classification head or a plain language model.
std::optional<AnswerTokens> tokens_of_files(const models::RerankConfig& config,
                                            const text::Tokenizer& tokenizer) {
  if (config.logit_score) {
    return AnswerTokens{config.logit_score->true_token, config.logit_score->false_token};
  }
  if (config.classifier_tokens.empty()) return std::nullopt;
  AnswerTokens tokens{token_of(tokenizer, config.classifier_tokens.back()), std::nullopt};
  if (config.classifier_tokens.size() == 2) {
    tokens.negative = token_of(tokenizer, config.classifier_tokens.front());
  }
  return tokens;
}

bool is_token(const text::Tokenizer& tokenizer, uint32_t id, std::string_view content) {
  return tokenizer.token_content(id) == content;
}

/// The template of the family that answers with `tokens`, or that the architecture is usually
/// fine-tuned as.
std::optional<text::RerankTemplate> family_template(const text::Tokenizer& tokenizer,
                                                    const std::optional<AnswerTokens>& tokens,
                                                    const std::string& model_type) {
  if (tokens) {
    if (is_token(tokenizer, tokens->positive, "1")) return text::mxbai_rerank_template();
    if (is_token(tokenizer, tokens->positive, "yes")) return text::qwen3_reranker_template();
    if (is_token(tokenizer, tokens->positive, "Yes") && !tokens->negative) {
      return text::zerank_template();
    }
    return std::nullopt;
  }
  if (model_type == "qwen3") return text::qwen3_reranker_template();
  if (model_type == "qwen2") return text::mxbai_rerank_template();
  return std::nullopt;
}

/// Those that the template of a family asks for.
std::optional<AnswerTokens> family_tokens(const text::Tokenizer& tokenizer,
                                          const std::string& template_name) {
  if (template_name == "qwen3-reranker") return parse_tokens(tokenizer, "yes/no");
  if (template_name == "mxbai-rerank-v2") return parse_tokens(tokenizer, "1/0");
  if (template_name == "zerank-2") return parse_tokens(tokenizer, "Yes");
  return std::nullopt;
}

std::string spelled(const text::Tokenizer& tokenizer, const AnswerTokens& tokens) {
  const auto content = [&](uint32_t id) {
    return std::string(tokenizer.token_content(id).value_or("?"));
  };
  if (!tokens.negative) return fmt::format("the logit of `{}`", content(tokens.positive));
  return fmt::format("the logit of `{}` against `{}`", content(tokens.positive),
                     content(*tokens.negative));
}

models::RerankHead token_head(const models::Model& model, const AnswerTokens& tokens) {
  const size_t rows = model.config().vocab_size;
  if (tokens.positive >= rows || tokens.negative.value_or(0) >= rows) {
    throw std::runtime_error("its vocabulary lacks the tokens that it should answer with");
  }
  return model.token_head(tokens.positive, tokens.negative);
}

}  // namespace

bool asks_to_rerank(const ModelOptions& own) {
  return !own.rerank_template.empty() || !own.rerank_tokens.empty();
}

RerankChoice choose_reranking(const std::filesystem::path& files, const models::Model& model,
                              const text::Tokenizer& tokenizer, const ModelOptions& own) {
  std::optional<AnswerTokens> tokens;
  if (!own.rerank_tokens.empty()) {
    tokens = parse_tokens(tokenizer, own.rerank_tokens);
  } else if (!model.classifier()) {
    tokens = tokens_of_files(model.rerank(), tokenizer);
  }
  const bool classifies = model.classifier() && !tokens;
  const std::string& model_type = model.config().model_type;

  std::optional<text::RerankTemplate> rerank;
  if (!own.rerank_template.empty()) {
    rerank = named_template(own.rerank_template);
  } else {
    rerank = models_own_template(files);
    if (!rerank) rerank = family_template(tokenizer, tokens, model_type);
  }
  if (!rerank) {
    throw std::runtime_error(
        "nothing says how it is asked; give --rerank-template and, unless it has a classification "
        "head, --rerank-tokens");
  }
  if (!tokens && !classifies) {
    tokens = family_tokens(tokenizer, rerank->name);
    const auto usual = tokens ? std::nullopt : family_template(tokenizer, {}, model_type);
    if (usual) tokens = family_tokens(tokenizer, usual->name);
    if (!tokens) {
      throw std::runtime_error("nothing says which tokens it answers with; give --rerank-tokens");
    }
  }
  // The published score of this family, whatever the file that its template came from.
  const bool zerank = tokens && !tokens->negative && is_token(tokenizer, tokens->positive, "Yes");
  spdlog::info("{} reranks with the template {}, by {}", files.filename().string(), rerank->name,
               tokens ? spelled(tokenizer, *tokens) : "its classification head");
  models::RerankHead head = tokens ? token_head(model, *tokens) : *model.classifier();
  return {std::move(*rerank), std::move(head), zerank ? kZerankScale : 1};
}

}  // namespace espalier::commands
