#include "text/rerank_prompt.h"

#include <algorithm>
#include <stdexcept>

namespace espalier::text {
namespace {

constexpr std::string_view kHead =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
constexpr std::string_view kTail = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

constexpr EncodeOptions kTrusted{.add_special_tokens = false};
constexpr EncodeOptions kUntrusted{.add_special_tokens = false, .match_added_tokens = false};

}  // namespace

RerankPrompt::RerankPrompt(const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer),
      head_(tokenizer.encode(kHead, kTrusted)),
      tail_(tokenizer.encode(kTail, kTrusted)) {
  // `<think>` is left to the tokenizer: vocabularies that do not have it as a token spell it.
  for (const std::string_view chat_token : {"<|im_start|>", "<|im_end|>"}) {
    if (tokenizer.encode(chat_token, kTrusted).size() != 1) {
      throw std::runtime_error("the tokenizer has no token " + std::string(chat_token) +
                               ", which Qwen3-Reranker's prompt needs; this model cannot rerank");
    }
  }
}

RerankPrompt::Encoded RerankPrompt::encode(std::string_view instruction, std::string_view query,
                                           std::string_view document, size_t max_tokens) const {
  std::string middle;
  middle.reserve(instruction.size() + query.size() + document.size() + 64);
  middle.append("<Instruct>: ").append(instruction);
  middle.append("\n<Query>: ").append(query);
  middle.append("\n<Document>: ").append(document);

  const std::vector<uint32_t> middle_ids = tokenizer_->encode(middle, kUntrusted);
  const size_t room = max_tokens - std::min(max_tokens, fixed_tokens());
  const size_t kept = std::min(middle_ids.size(), room);
  Encoded result;
  result.truncated = kept < middle_ids.size();
  result.ids.reserve(fixed_tokens() + kept);
  result.ids.insert(result.ids.end(), head_.begin(), head_.end());
  result.ids.insert(result.ids.end(), middle_ids.begin(), middle_ids.begin() + kept);
  result.ids.insert(result.ids.end(), tail_.begin(), tail_.end());
  return result;
}

}  // namespace espalier::text
