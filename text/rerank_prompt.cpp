#include "text/rerank_prompt.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace espalier::text {
namespace {

constexpr std::string_view kHead =
    "<|im_start|>system\n"
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. "
    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n";
constexpr std::string_view kTail = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// Texts of more bytes a token are rare: one that has so many for all the tokens that a prompt may
/// have is looked at twice.
constexpr size_t kPlausibleTokenBytes = 16;

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

RerankPrompt::Shared RerankPrompt::prepare(std::string_view instruction, std::string_view query,
                                           size_t max_tokens) const {
  std::string beginning;
  beginning.reserve(instruction.size() + query.size() + 64);
  beginning.append("<Instruct>: ").append(instruction);
  beginning.append("\n<Query>: ").append(query);
  beginning.append("\n<Document>: ");
  if (beginning.size() / kPlausibleTokenBytes > max_tokens) {
    Tokenizer::Encoded cut = tokenizer_->encode_up_to(beginning, max_tokens, kUntrusted);
    if (cut.cut) {
      Shared too_long{head_, {}};
      too_long.ids.insert(too_long.ids.end(), cut.ids.begin(), cut.ids.end());
      return too_long;
    }
  }
  Tokenizer::Beginning middle = tokenizer_->encode_beginning(beginning);
  Shared shared{head_, std::move(middle.rest)};
  shared.ids.insert(shared.ids.end(), middle.ids.begin(), middle.ids.end());
  return shared;
}

RerankPrompt::Encoded RerankPrompt::encode(const Shared& shared, std::string_view document,
                                           size_t max_tokens, size_t document_tokens_max) const {
  const size_t room = max_tokens - std::min(max_tokens, tail_.size());  // for head and middle
  Encoded result{shared.ids, shared.ids.size() > room};
  if (result.truncated) {
    result.ids.resize(std::max(room, head_.size()));
  } else {
    const size_t room_left = room - shared.ids.size();
    size_t wanted = room_left;
    if (document_tokens_max < room_left) {
      // The rest of the beginning and the document's first characters may share a token.
      const size_t rest = tokenizer_->encode(shared.rest, kUntrusted).size();
      wanted = std::min(room_left, rest + document_tokens_max);
    }
    const Tokenizer::Encoded own =
        tokenizer_->encode_up_to(shared.rest + std::string(document), wanted, kUntrusted);
    result.ids.insert(result.ids.end(), own.ids.begin(), own.ids.end());
    result.truncated = own.cut && wanted == room_left;
  }
  result.ids.insert(result.ids.end(), tail_.begin(), tail_.end());
  return result;
}

}  // namespace espalier::text
