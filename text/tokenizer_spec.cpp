#include "text/tokenizer_spec.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <unordered_set>

#include "text/byte_level.h"

namespace espalier::text {
namespace {

/// Ids are below this: every sane vocabulary fits, and sums of ids and counts cannot overflow.
constexpr uint32_t kIdMax = (1u << 31) - 1;

struct SpecChecker {
  const TokenizerSpec& spec;
  const std::string& name;

  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::runtime_error(name + ": " + reason);
  }

  void check_vocabulary() const {
    std::unordered_set<uint32_t> ids;
    for (const auto& [content, id] : spec.model.vocabulary) {
      if (id > kIdMax) refuse("the id " + std::to_string(id) + " is too large");
      if (!ids.insert(id).second) refuse("two entries have the id " + std::to_string(id));
    }
    for (size_t i = 0; i < spec.model.merges.size(); ++i) {
      const Merge& merge = spec.model.merges[i];
      for (const uint32_t id : {merge.left, merge.right, merge.merged}) {
        if (ids.count(id) != 0) continue;
        refuse("merge " + std::to_string(i) + " needs id " + std::to_string(id) +
               ", which no entry has");
      }
    }
    const auto& unk_id = spec.model.unknown.unk_id;
    if (unk_id && ids.count(*unk_id) == 0) refuse("no entry has the id of the unknown token");
  }

  void check_symbols() const {
    const BpeSpec& model = spec.model;
    if (!model.byte_level) {
      if (spells_all_characters(model.vocabulary, model.unknown)) return;
      refuse(
          "characters without an entry would vanish; expected an unknown token, or byte fallback "
          "and entries <0x00> to <0xFF>");
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      const char raw = static_cast<char>(byte);
      if (model.vocabulary.find(to_byte_level({&raw, 1})) == model.vocabulary.end()) {
        refuse("a byte-level vocabulary has no entry for byte " + std::to_string(byte));
      }
    }
  }

  void check_pre_tokenizer() const {
    const PreTokenizer& words = spec.pre_tokenizer;
    if (spec.model.byte_level && (words.metaspace || words.marked_words)) {
      refuse("words that start with a mark need a vocabulary that is not byte-level");
    }
    if ((words.metaspace || words.marked_words) &&
        (!words.splits.empty() || words.byte_level_split)) {
      refuse("words that start with a mark cannot be split further");
    }
    if (!spec.model.byte_level && (words.byte_level_split || words.add_prefix_space)) {
      refuse("the words of ByteLevel need a byte-level vocabulary");
    }
  }

  void check_added_ids() const {
    std::unordered_set<std::string_view> contents, normalized_patterns;
    for (const AddedToken& token : spec.added_tokens) {
      if (token.id > kIdMax) refuse("the id " + std::to_string(token.id) + " is too large");
      if (token.content.empty()) refuse("an added token is empty");
      if (token.pattern.empty())
        refuse("an added token has no pattern; set_pattern() gives it one");
      if (!contents.insert(token.content).second) refuse("an added token is there twice");
      if (token.normalized && !normalized_patterns.insert(token.pattern).second) {
        refuse("two added tokens are the same when normalized");
      }
    }
    const size_t count = count_ids(spec);
    for (const auto* ids : {&spec.post_processor.prefix, &spec.post_processor.suffix}) {
      for (const uint32_t id : *ids) {
        if (id >= count) refuse("id " + std::to_string(id) + " around a text is no token's");
      }
    }
  }
};

}  // namespace

size_t count_ids(const TokenizerSpec& spec) {
  size_t count = 0;
  for (const auto& [content, id] : spec.model.vocabulary) count = std::max(count, size_t{id} + 1);
  for (const AddedToken& token : spec.added_tokens) count = std::max(count, size_t{token.id} + 1);
  return count;
}

void set_pattern(AddedToken& token, const Normalizer& normalizer) {
  std::string buffer;
  token.pattern =
      token.normalized ? std::string(normalizer.normalize(token.content, buffer)) : token.content;
}

void check_spec(const TokenizerSpec& spec, const std::string& name) {
  const SpecChecker checker{spec, name};
  checker.check_vocabulary();
  checker.check_symbols();
  checker.check_pre_tokenizer();
  checker.check_added_ids();
}

}  // namespace espalier::text
