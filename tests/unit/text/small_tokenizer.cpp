#include "tests/unit/text/small_tokenizer.h"

#include <nlohmann/json.hpp>

#include "text/byte_level.h"
#include "text/metaspace.h"
#include "text/utf8.h"

namespace espalier::text {
namespace {

using nlohmann::json;

json small_document() {
  json document = json::parse(R"json({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
    "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
      "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
      "vocab": {}, "merges": []}})json");
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    document["model"]["vocab"][to_byte_level({&raw, 1})] = byte;
  }
  return document;
}

json sentencepiece_document() {
  json document = json::parse(R"json({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
      "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
      "byte_fallback": true, "ignore_merges": false, "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2},
      "merges": []}})json");
  json& vocabulary = document["model"]["vocab"];
  for (int byte = 0; byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const char digits[] = {kDigits[byte / 16], kDigits[byte % 16]};
    vocabulary["<0x" + std::string(digits, 2) + ">"] = 3 + byte;
  }
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = kFirstCharacterId + (c - '!');
  vocabulary[std::string(kSpaceMark)] = kMarkId;
  vocabulary["\u4E2D"] = kChineseId;
  return document;
}

std::string changed(json document, const std::vector<Change>& changes) {
  for (const auto& [pointer, value] : changes) {
    const json::json_pointer where(pointer);
    if (value == "remove") {
      json& parent = document[where.parent_pointer()];
      parent.is_array() ? parent.erase(std::stoul(where.back())) : (void)parent.erase(where.back());
    } else {
      document[where] = json::parse(value);
    }
  }
  return document.dump();
}

}  // namespace

std::string small_tokenizer_json() { return small_document().dump(); }

std::string changed_tokenizer_json(const std::vector<Change>& changes) {
  return changed(small_document(), changes);
}

Tokenizer small_tokenizer(const std::vector<Change>& changes) {
  return Tokenizer::parse(changed_tokenizer_json(changes), "small.json");
}

std::string sentencepiece_json(const std::vector<Change>& changes) {
  return changed(sentencepiece_document(), changes);
}

Tokenizer small_sentencepiece(const std::vector<Change>& changes) {
  return Tokenizer::parse(sentencepiece_json(changes), "sentencepiece.json");
}

std::vector<uint32_t> character_ids(std::string_view text) {
  std::vector<uint32_t> ids;
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter character = decode_utf8(text, at);
    at += character.length;
    const bool is_mark = character.code_point == U' ' || character.code_point == 0x2581;
    ids.push_back(is_mark ? kMarkId
                  : character.code_point == 0x4E2D
                      ? kChineseId
                      : kFirstCharacterId + character.code_point - '!');
  }
  return ids;
}

std::vector<uint32_t> byte_ids(std::string_view text) {
  std::vector<uint32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

const Tokenizer& mini_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(ESPALIER_MINI_MODEL "/tokenizer.json");
  return tokenizer;
}

}  // namespace espalier::text
