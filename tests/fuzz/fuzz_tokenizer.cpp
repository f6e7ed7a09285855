// Fuzzes the tokenizer: the first byte chooses what the rest is.
//   even: text for the mini model's tokenizer and for ones like Llama 2's, checked against slower
//   ways to the same ids, and with its offsets; and ids to decode;
//   odd:  a piece of a tokenizer.json, byte-level or like Llama 2's, which the loader must read or
//   refuse with std::runtime_error.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/byte_level.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode_normalizer.h"
#include "text/utf8.h"

namespace {

using namespace espalier::text;
using Ids = std::vector<uint32_t>;

void require(bool holds, const char* invariant) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", invariant);
  std::abort();
}

const std::string kMiniFile = ESPALIER_MINI_MODEL "/tokenizer.json";

/// The raw bytes of every entry of the vocabulary, by id.
std::unordered_map<uint32_t, std::string> entry_bytes(const TokenizerSpec& spec) {
  std::unordered_map<char32_t, char> byte_of;
  const auto alphabet = byte_level_alphabet();
  for (size_t byte = 0; byte < 256; ++byte) byte_of[alphabet[byte]] = static_cast<char>(byte);
  std::unordered_map<uint32_t, std::string> entries;
  for (const auto& [content, id] : spec.model.vocabulary) {
    std::string& bytes = entries[id];
    for (size_t at = 0; at < content.size();) {
      const DecodedCharacter character = decode_utf8(content, at);
      bytes += byte_of.at(character.code_point);
      at += character.length;
    }
  }
  return entries;
}

/// The checks of texts take the square of their length.
constexpr size_t kTextBytesMax = 512;

constexpr EncodeOptions kMatched{.add_special_tokens = false};
constexpr EncodeOptions kUnmatched{.add_special_tokens = false, .match_added_tokens = false};

/// Added tokens by plain search: at every position the longest one; the text between them is
/// encoded apart.
Ids encode_piecewise(const Tokenizer& tokenizer, const TokenizerSpec& spec, std::string_view text) {
  Ids ids;
  size_t text_begin = 0;
  const auto put_text = [&](size_t end) {
    const Ids part = tokenizer.encode(text.substr(text_begin, end - text_begin), kUnmatched);
    ids.insert(ids.end(), part.begin(), part.end());
  };
  for (size_t at = 0; at < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : spec.added_tokens) {
      const size_t length = token.content.size();
      if (text.substr(at).starts_with(token.content) &&
          (longest == nullptr || length > longest->content.size())) {
        longest = &token;
      }
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    put_text(at);
    ids.push_back(longest->id);
    at += longest->content.size();
    text_begin = at;
  }
  put_text(text.size());
  return ids;
}

/// The post-processor's ids stand around those of the text.
void check_special_tokens(const Tokenizer& tokenizer, std::string_view text, bool match, Ids ids) {
  const Ids& suffix = tokenizer.suffix_tokens();
  ids.insert(ids.begin(), tokenizer.prefix_tokens().begin(), tokenizer.prefix_tokens().end());
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  require(tokenizer.encode(text, {.match_added_tokens = match}) == ids,
          "special tokens are put around the ids");
}

/// Tokens from the text cover it in order, those of the post-processor have none of it.
void check_offsets(const Tokenizer& tokenizer, std::string_view text,
                   const EncodeOptions& options) {
  Ids ids;
  size_t begin = 0, covered = 0;
  for (const TokenWithOffsets& token : tokenizer.encode_with_offsets(text, options)) {
    ids.push_back(token.id);
    require(token.begin <= token.end && token.end <= text.size(), "ranges are in the text");
    require(token.special == (token.begin == token.end), "tokens from the text have bytes of it");
    require(token.begin >= begin && token.begin <= covered, "ranges are in order, without gaps");
    begin = token.begin;
    covered = std::max(covered, token.end);
  }
  require(covered == text.size(), "ranges cover the text");
  require(ids == tokenizer.encode(text, options), "offsets come with the ids of encode()");
}

/// Any bytes as ids, four each, most of them made to exist.
void check_decode(const Tokenizer& tokenizer, std::string_view bytes) {
  Ids ids;
  std::string joined;
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    uint32_t id = 0;
    std::memcpy(&id, bytes.data() + at, 4);
    if (id % 16 != 0) id %= static_cast<uint32_t>(tokenizer.id_count());
    ids.push_back(id);
    joined += tokenizer.token_bytes(id);
  }
  require(tokenizer.decode(ids, false) == replace_invalid_utf8(joined),
          "decoded text is that of the tokens' bytes");
  std::erase_if(ids, [&](uint32_t id) { return tokenizer.is_special(id); });
  require(tokenizer.decode(ids, false) == tokenizer.decode(ids, true),
          "special tokens are left out on demand");
}

void check_text(std::string_view text) {
  static const Tokenizer tokenizer = Tokenizer::load(kMiniFile);
  static const TokenizerSpec spec = read_tokenizer_json(kMiniFile);
  static const auto entries = entry_bytes(spec);
  static const UnicodeNormalizer normalizer;

  const std::string valid = replace_invalid_utf8(text);
  require(is_valid_utf8(valid), "replaced text is valid UTF-8");
  require(is_valid_utf8(text) == (valid == text), "only invalid text is changed");

  const Ids ids = tokenizer.encode(text, kMatched);
  for (const uint32_t id : ids) require(id < tokenizer.id_count(), "ids are below id_count()");
  require(ids == encode_piecewise(tokenizer, spec, valid),
          "text is encoded piece by piece between added tokens");

  const Ids unmatched = tokenizer.encode(text, kUnmatched);
  std::string spelled, buffer;
  for (const uint32_t id : unmatched) spelled += entries.at(id);
  require(spelled == normalizer.normalize(valid, buffer), "ids spell the normalized text");
  require(tokenizer.decode(unmatched, true) == spelled, "ids are decoded to the normalized text");
  check_offsets(tokenizer, text, kMatched);
  check_offsets(tokenizer, text, {.match_added_tokens = false});
  check_decode(tokenizer, text);

  check_special_tokens(tokenizer, text, true, ids);
  check_special_tokens(tokenizer, text, false, unmatched);
}

std::string byte_vocabulary() {
  std::string json = "{";
  for (int byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    std::string entry = to_byte_level({&raw, 1});
    if (raw == '"' || raw == '\\') entry.insert(0, 1, '\\');
    json += (byte == 0 ? "\"" : ",\"") + entry + "\":" + std::to_string(byte);
  }
  return json + ",\"ab\":256,\"abc\":257}";
}

std::string json_string(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", byte);
    out += byte < 0x20 || c == '"' || c == '\\' ? std::string(escape) : std::string(1, c);
  }
  return out + "\"";
}

/// Like Llama 2's: characters, a few of them with an entry, and bytes.
std::string character_vocabulary() {
  std::string entries =
      R"("<unk>": 0, "<s>": 1, "a": 2, "b": 3, "e": 4, "\u2581": 5, "\u6f22": 6, "ab": 7,
    "\u2581a": 8, "\u2581\u2581": 9, "\u2581ab": 10, "abc": 11, "c": 12, "b\u2581": 13)";
  for (int byte = 0; byte < 256; ++byte) {
    char entry[24];
    std::snprintf(entry, sizeof entry, ", \"<0x%02X>\": %d", static_cast<unsigned>(byte),
                  14 + byte);
    entries += entry;
  }
  return "{" + entries + "}";
}

/// A tokenizer.json of that kind with `fragment` in place of one component.
std::string character_file_with(uint8_t option, std::string_view fragment) {
  static const std::string vocabulary = character_vocabulary();
  std::array<std::string, 6> parts = {
      R"([{"content": "<s>", "id": 1, "normalized": true}])",
      R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]})",
      "null",
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"},
        "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
      R"(["a b", "\u2581 a", "\u2581 \u2581", "\u2581 ab", "ab c"])",
      vocabulary};
  if (option < parts.size()) parts[option] = fragment;
  return R"({"version": "1.0", "added_tokens": )" + parts[0] + R"(, "normalizer": )" + parts[1] +
         R"(, "pre_tokenizer": )" + parts[2] + R"(, "decoder": )" + parts[3] +
         R"(, "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
         "merges": )" +
         parts[4] + R"(, "vocab": )" + parts[5] + "}}";
}

/// Of tokenizers that cut texts at marks, that take them as one word, because a merge reaches over
/// marks, and that mark them themselves.
void check_characters(std::string_view text) {
  static const Tokenizer words = Tokenizer::parse(character_file_with(255, ""), "words.json");
  static const Tokenizer word = Tokenizer::parse(
      character_file_with(
          4, R"(["a b", "\u2581 a", "\u2581 \u2581", "\u2581 ab", "ab c", "b \u2581"])"),
      "word.json");
  static const Tokenizer marked = Tokenizer::parse(
      character_file_with(
          2, R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"})"),
      "marked.json");
  for (const Tokenizer* tokenizer : {&words, &word, &marked}) {
    const Ids ids = tokenizer->encode(text, kUnmatched);
    check_offsets(*tokenizer, text, kMatched);
    check_offsets(*tokenizer, text, kUnmatched);
    for (const size_t limit : {size_t{0}, ids.size() / 2, ids.size()}) {
      const auto cut = tokenizer->encode_up_to(
          text, limit,
          {.add_special_tokens = false, .match_added_tokens = false, .first_window = 1});
      require(std::equal(cut.ids.begin(), cut.ids.end(), ids.begin()) &&
                  cut.ids.size() == std::min(limit, ids.size()),
              "what is cut has the first ids");
    }
    const auto [shared, rest] = tokenizer->encode_beginning(text);
    Ids whole = shared;
    const Ids behind = tokenizer->encode(rest, kUnmatched);
    whole.insert(whole.end(), behind.begin(), behind.end());
    require(whole == ids, "a beginning and its rest have the ids of the whole");
    require(is_valid_utf8(tokenizer->decode(ids, false)), "decoded text is valid UTF-8");
  }
  const std::string decoded = words.decode(words.encode(text, kUnmatched), false);
  std::string expected = replace_invalid_utf8(text), marks;
  for (size_t at = 0; at < expected.size();) {
    const size_t length = decode_utf8(expected, at).length;
    const std::string_view character = std::string_view(expected).substr(at, length);
    marks += character == "\u2581" ? " " : character;
    at += length;
  }
  require(decoded == marks, "decoded text is the text, marks being spaces");
}

/// A tokenizer.json with `fragment` in place of one component.
std::string file_with(uint8_t option, std::string_view fragment) {
  static const std::string vocabulary = byte_vocabulary();
  std::array<std::string, 6> parts = {R"([{"content": "<x>", "id": 258, "normalized": true}])",
                                      R"({"type": "NFC"})",
                                      R"({"type": "ByteLevel", "add_prefix_space": true})",
                                      "null",
                                      R"(["a b", "ab c"])",
                                      vocabulary};
  const size_t slot = option % (parts.size() + 1);
  if (slot < parts.size()) {
    parts[slot] = fragment;
  } else {
    parts[2] = R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated",
      "invert": false, "pattern": {"Regex": )" +
               json_string(fragment) + R"(}}, {"type": "ByteLevel"}]})";
  }
  return R"({"version": "1.0", "added_tokens": )" + parts[0] + R"(, "normalizer": )" + parts[1] +
         R"(, "pre_tokenizer": )" + parts[2] + R"(, "post_processor": )" + parts[3] +
         R"(, "model": {"type": "BPE", "merges": )" + parts[4] + R"(, "vocab": )" + parts[5] + "}}";
}

void check_loader(bool characters, uint8_t option, std::string_view fragment) {
  const std::string bytes = option == 255 ? std::string(fragment)
                            : characters  ? character_file_with(option % 6, fragment)
                                          : file_with(option, fragment);
  try {
    const Tokenizer tokenizer = Tokenizer::parse(bytes, "fuzz.json");
    const std::string text = "abcab e\xCC\x81 <x> 12\n\xE6\xBC\xA2!";
    const Ids ids = tokenizer.encode(text);
    for (const uint32_t id : ids) require(id < tokenizer.id_count(), "ids are below id_count()");
    Ids with_offsets;
    for (const TokenWithOffsets& token : tokenizer.encode_with_offsets(text)) {
      require(token.begin <= token.end && token.end <= text.size(), "ranges are in the text");
      with_offsets.push_back(token.id);
    }
    require(with_offsets == ids, "offsets come with the ids of encode()");
    require(is_valid_utf8(tokenizer.decode(ids, false)), "decoded text is valid UTF-8");
  } catch (const std::runtime_error& error) {
    require(std::string_view(error.what()).starts_with("fuzz.json: "), "a refusal names the file");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    check_text(rest.substr(0, kTextBytesMax));
    check_characters(rest.substr(0, kTextBytesMax));
  } else {
    check_loader(data[0] % 4 == 3, data[1], rest.substr(1));
  }
  return 0;
}
