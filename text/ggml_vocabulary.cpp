#include "text/ggml_vocabulary.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <unordered_set>
#include <utility>

#include "text/byte_level.h"
#include "text/json_field.h"
#include "text/sentencepiece_merges.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

/// llama.cpp's numbers.
enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// How a byte-level BPE cuts words, by the name that llama.cpp gives to it.
struct WordCutting {
  std::string_view names;    // each in spaces
  std::string_view pattern;  // empty: GPT-2's own
  bool nfc;
  bool ignore_merges;
  bool add_bos;  // unless the file says otherwise
};

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<WordCutting, 4> kWordCuttings = {
    {{" qwen2 f2llmv2 ", kQwen2Pattern, true, false, false},
     {" llama-bpe llama3 llama-v3 ", kLlama3Pattern, false, true, true},
     {" tekken ", kTekkenPattern, false, true, true},
     {" gpt-2 ", "", false, false, false}}};

/// Builds the parts of a spec from a vocabulary.
class SpecBuilder {
 public:
  SpecBuilder(const GgmlVocabulary& vocabulary, const std::string& name)
      : given_(vocabulary), name_(name) {}

  TokenizerSpec build() {
    check_sizes();
    bool add_bos = true;
    if (given_.model == "gpt2") {
      add_bos = build_byte_level();
    } else if (given_.model == "llama") {
      build_sentencepiece();
    } else {
      refuse("model", in_quotes(given_.model) + " is not supported; supported: gpt2, llama");
    }
    add_template(add_bos);
    return std::move(spec_);
  }

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const {
    throw std::runtime_error(name_ + ": tokenizer.ggml." + std::string(key) + ": " + reason);
  }

  int32_t type_of(size_t id) const {
    return given_.token_type.empty() ? static_cast<int32_t>(kNormal) : given_.token_type[id];
  }

  void check_sizes() const {
    if (given_.tokens.empty()) refuse("tokens", "is empty");
    if (given_.tokens.size() > kTokenIdMax) refuse("tokens", "has too many");
    if (!given_.token_type.empty() && given_.token_type.size() != given_.tokens.size()) {
      refuse("token_type", "has " + std::to_string(given_.token_type.size()) + " numbers for " +
                               std::to_string(given_.tokens.size()) + " tokens");
    }
  }

  /// Entries of the vocabulary, and added tokens.
  void sort_tokens() {
    std::unordered_set<std::string_view> contents;
    for (size_t id = 0; id < given_.tokens.size(); ++id) {
      const std::string_view content = given_.tokens[id];
      const int32_t type = type_of(id);
      // Fillers, to which no text leads.
      if (type == kUnused || content.empty()) continue;
      if (!is_valid_utf8(content)) {
        refuse("tokens", "the one of id " + std::to_string(id) + " is no valid UTF-8");
      }
      if (!contents.insert(content).second) {
        refuse("tokens", in_quotes(content) + " is there twice, also as id " + std::to_string(id));
      }
      if (type == kUnknown) {
        spec_.model.vocabulary.emplace(content, static_cast<uint32_t>(id));
      }
      if (type == kControl || type == kUserDefined || type == kUnknown) {
        AddedToken token;
        token.content = token.pattern = content;
        token.id = static_cast<uint32_t>(id);
        token.special = type != kUserDefined;
        spec_.added_tokens.push_back(std::move(token));
      } else if (type == kNormal || type == kByte) {
        spec_.model.vocabulary.emplace(content, static_cast<uint32_t>(id));
      } else {
        refuse("token_type", std::to_string(type) + " of id " + std::to_string(id) +
                                 " is not supported; supported: 1 to 6");
      }
    }
  }

  std::optional<uint32_t> entry(std::string_view content) const {
    const auto found = spec_.model.vocabulary.find(content);
    return found == spec_.model.vocabulary.end() ? std::nullopt : std::optional(found->second);
  }

  /// Whether a file that does not say wants a begin token.
  bool build_byte_level() {
    const std::string name = " " + given_.pre + " ";
    const auto* const cutting = std::ranges::find_if(kWordCuttings, [&](const WordCutting& known) {
      return known.names.find(name) != std::string_view::npos;
    });
    if (given_.pre.find(' ') != std::string::npos || cutting == kWordCuttings.end()) {
      refuse("pre",
             (given_.pre.empty() ? "is missing" : in_quotes(given_.pre) + " is not supported") +
                 "; supported: qwen2, llama-bpe, tekken, gpt-2. How words are cut decides "
                 "about the ids; if the file is old, convert the model again");
    }
    sort_tokens();
    for (int byte = 0; byte < 256; ++byte) {
      const char raw = static_cast<char>(byte);
      if (!entry(to_byte_level({&raw, 1}))) {
        refuse("tokens", "no entry " + in_quotes(to_byte_level({&raw, 1})) + " for byte " +
                             std::to_string(byte));
      }
    }
    read_merges();
    spec_.model.ignore_merges = cutting->ignore_merges;
    if (cutting->nfc) {
      std::vector<Normalizer::Step> steps;
      steps.emplace_back(UnicodeNormalizer());
      spec_.normalizer = Normalizer(std::move(steps));
    }
    if (cutting->pattern.empty()) {
      spec_.pre_tokenizer.byte_level_split = SplitPattern::regex(PreTokenizer::kByteLevelPattern);
    } else {
      spec_.pre_tokenizer.splits.emplace_back(SplitPattern::regex(cutting->pattern));
    }
    return cutting->add_bos;
  }

  void read_merges() {
    if (given_.merges.empty()) refuse("merges", "is missing");
    std::string merged;
    for (size_t i = 0; i < given_.merges.size(); ++i) {
      const std::string_view text = given_.merges[i];
      const size_t space = text.find(' ', 1);
      const auto malformed = [&](const std::string& reason) {
        refuse("merges", "merge " + std::to_string(i) + ", " + in_quotes(text) + ", " + reason);
      };
      if (space == std::string_view::npos) malformed("has no space between its parts");
      const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
      merged.assign(left).append(right);
      const auto id_of = [&](std::string_view content) {
        const auto id = entry(content);
        if (!id) malformed("needs " + in_quotes(content) + ", which is no normal token");
        return *id;
      };
      spec_.model.merges.push_back({id_of(left), id_of(right), id_of(merged)});
    }
  }

  void build_sentencepiece() {
    sort_tokens();
    // Of control tokens nothing is merged, so that no text can spell one.
    std::vector<std::string> pieces(given_.tokens.size());
    for (const auto& [content, id] : spec_.model.vocabulary) {
      if (type_of(id) == kNormal) pieces[id] = content;
    }
    try {
      spec_.model.merges = sentencepiece_merges(pieces, given_.scores);
    } catch (const std::invalid_argument& error) {
      refuse("scores", error.what());
    }
    spec_.model.byte_level = false;
    spec_.model.unknown = {.byte_fallback = true, .unk_id = unknown_id(), .fuse_unk = true};
    std::vector<Normalizer::Step> steps;
    if (given_.add_space_prefix.value_or(true)) {
      steps.emplace_back(PrependNormalizer{std::string(kSpaceMark)});
    }
    steps.emplace_back(ReplaceNormalizer{" ", std::string(kSpaceMark)});
    spec_.normalizer = Normalizer(std::move(steps));
    std::vector<Decoder::Step> decoding = {ReplaceDecoder{std::string(kSpaceMark), " "},
                                           ByteFallbackDecoder{}, FuseDecoder{}};
    if (given_.add_space_prefix.value_or(true)) decoding.emplace_back(StripDecoder{" ", 1, 0});
    spec_.decoder = Decoder(std::move(decoding));
  }

  std::optional<uint32_t> unknown_id() const {
    for (size_t id = 0; id < given_.tokens.size(); ++id) {
      if (type_of(id) == kUnknown && !given_.tokens[id].empty()) return static_cast<uint32_t>(id);
    }
    return std::nullopt;
  }

  uint32_t special_id(std::string_view key, std::optional<uint64_t> id,
                      std::optional<uint32_t> fallback) const {
    if (!id && !fallback) refuse(key, "is missing");
    const uint64_t found = id ? *id : *fallback;
    if (found >= given_.tokens.size()) {
      refuse(key, std::to_string(found) + " is not the id of a token");
    }
    return static_cast<uint32_t>(found);
  }

  void add_template(bool add_bos) {
    // What llama.cpp takes where a SentencePiece file says nothing.
    const bool sentencepiece = given_.model == "llama";
    const auto fallback = [&](uint32_t id) {
      return sentencepiece ? std::optional(id) : std::nullopt;
    };
    if (given_.add_bos_token.value_or(add_bos)) {
      spec_.post_processor.prefix = {special_id("bos_token_id", given_.bos_token_id, fallback(1))};
    }
    if (given_.add_eos_token.value_or(false)) {
      spec_.post_processor.suffix = {special_id("eos_token_id", given_.eos_token_id, fallback(2))};
    }
  }

  const GgmlVocabulary& given_;
  const std::string& name_;
  TokenizerSpec spec_;
};

}  // namespace

Tokenizer tokenizer_of_ggml(const GgmlVocabulary& vocabulary, const std::string& name) {
  return Tokenizer::from_spec(SpecBuilder(vocabulary, name).build(), name);
}

}  // namespace espalier::text
