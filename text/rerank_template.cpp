#include "text/rerank_template.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace espalier::text {
namespace {

constexpr RerankPlace kInstruction{RerankField::kInstruction};
constexpr RerankPlace kQuery{RerankField::kQuery};
constexpr RerankPlace kDocument{RerankField::kDocument};

constexpr std::string_view kPlaceNames[] = {"{instruction}", "{query}", "{document}"};

size_t count(const RerankParts& parts, RerankField field) {
  return static_cast<size_t>(std::ranges::count_if(parts, [&](const RerankPart& part) {
    const auto* const place = std::get_if<RerankPlace>(&part);
    return place != nullptr && place->field == field;
  }));
}

void check_parts(const std::string& name, const RerankParts& parts) {
  const auto fail = [&](const char* reason) {
    throw std::runtime_error("the rerank template " + name + " " + reason);
  };
  const size_t documents = count(parts, RerankField::kDocument);
  if (documents == 0) fail("has no place for the document");
  if (documents > 1) fail("has several places for the document; one is supported");
  const size_t queries = count(parts, RerankField::kQuery);
  if (queries == 0) fail("has no place for the query");
  if (std::max(queries, count(parts, RerankField::kInstruction)) > kRepeatedPlacesMax) {
    fail(
        "repeats a request's texts too often; 8 places for the query, or instruction, are allowed");
  }
}

}  // namespace

RerankTemplate qwen3_reranker_template() {
  // Its authors tokenize the middle as one string.
  const RerankParts parts = {
      "<|im_start|>system\n"
      "Judge whether the Document meets the requirements based on the Query and the Instruct "
      "provided. "
      "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n",
      RerankCut{.plain = true},
      "<Instruct>: ",
      kInstruction,
      "\n<Query>: ",
      kQuery,
      "\n<Document>: ",
      kDocument,
      RerankCut{},
      "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"};
  return {"qwen3-reranker", parts, parts};
}

RerankTemplate mxbai_rerank_template() {
  const RerankParts head = {
      "<|im_start|>system\n"
      "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
      "<|im_start|>user\n",
      RerankCut{}};
  const RerankParts rest = {
      "query: ",
      kQuery,
      RerankCut{},
      "\n",
      RerankCut{},
      "document: ",
      kDocument,
      RerankCut{},
      "\n",
      RerankCut{},
      "You are a search relevance expert who evaluates how well documents match search queries. "
      "For each query-document pair, carefully analyze the semantic relationship between them, "
      "then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\n"
      "Relevance:",
      RerankCut{},
      "<|im_end|>\n<|im_start|>assistant\n"};
  RerankParts plain = head;
  plain.insert(plain.end(), rest.begin(), rest.end());
  RerankParts instructed = head;
  instructed.insert(instructed.end(), {"instruction: ", kInstruction, "\n"});
  instructed.insert(instructed.end(), rest.begin(), rest.end());
  return {"mxbai-rerank-v2", std::move(plain), std::move(instructed)};
}

RerankTemplate zerank_template() {
  constexpr RerankPlace kTrimmedQuery{RerankField::kQuery, true};
  constexpr RerankPlace kTrimmedDocument{RerankField::kDocument, true};
  const RerankParts rest = {"<|im_end|>\n<|im_start|>user\n", kTrimmedDocument,
                            "<|im_end|>\n<|im_start|>assistant\n"};
  RerankParts plain = {"<|im_start|>system\n", kTrimmedQuery};
  plain.insert(plain.end(), rest.begin(), rest.end());
  RerankParts instructed = {"<|im_start|>system\n<query>", kTrimmedQuery, "</query>\n<instruction>",
                            kInstruction, "</instruction>"};
  instructed.insert(instructed.end(), rest.begin(), rest.end());
  return {"zerank-2", std::move(plain), std::move(instructed)};
}

std::optional<RerankTemplate> known_template(std::string_view name) {
  for (RerankTemplate known :
       {qwen3_reranker_template(), mxbai_rerank_template(), zerank_template()}) {
    if (known.name == name) return known;
  }
  return std::nullopt;
}

RerankTemplate parse_plain_template(std::string_view text, std::string name) {
  if (text.ends_with('\n')) text.remove_suffix(text.ends_with("\r\n") ? 2 : 1);
  RerankParts parts;
  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) parts.emplace_back(std::exchange(literal, {}));
  };
  while (!text.empty()) {
    const auto* const found = std::ranges::find_if(
        kPlaceNames, [&](std::string_view place) { return text.starts_with(place); });
    if (found == std::end(kPlaceNames)) {
      literal += text.front();
      text.remove_prefix(1);
      continue;
    }
    end_literal();
    parts.emplace_back(RerankPlace{static_cast<RerankField>(found - std::begin(kPlaceNames))});
    text.remove_prefix(found->size());
  }
  end_literal();
  RerankTemplate rerank{std::move(name), parts, {}};
  if (count(parts, RerankField::kInstruction) > 0) rerank.instructed = std::move(parts);
  check_template(rerank);
  return rerank;
}

void check_template(const RerankTemplate& rerank) {
  check_parts(rerank.name, rerank.plain);
  if (rerank.instructed) check_parts(rerank.name, *rerank.instructed);
  if (rerank.instructed && count(*rerank.instructed, RerankField::kInstruction) == 0) {
    throw std::runtime_error("the rerank template " + rerank.name +
                             " has no place for the instruction that it takes");
  }
}

}  // namespace espalier::text
