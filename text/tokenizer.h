// A Hugging Face `tokenizer.json`, read once, giving exactly the ids of Hugging Face's
// `tokenizers`: added tokens, normalizer, pre-tokenizer, BPE of bytes (Qwen, Llama 3) or of
// characters (Llama 2, Mistral), post-processor. And the way back: the text of ids, and where in a
// text each id comes from.
//
// Thread contract: a Tokenizer is immutable after load(); any number of threads may call it at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::text {

struct TokenizerSpec;  // text/tokenizer_spec.h

struct EncodeOptions {
  /// Apply the post-processor's template (for Qwen3-Embedding: append `<|endoftext|>`).
  bool add_special_tokens = true;
  /// Recognise added tokens (`<|im_end|>` …), as Hugging Face does. If false they are plain text,
  /// so the text can forge none.
  bool match_added_tokens = true;
  /// Bytes that encode_up_to() reads at first; 0: so many that they suffice for nearly every text.
  /// Tests make it small.
  size_t first_window = 0;
};

/// An id of a text, and the bytes of the text that it stands for.
struct TokenWithOffsets {
  uint32_t id = 0;
  size_t begin = 0, end = 0;  // bytes [begin, end) of the text as it was given
  bool special = false;       // from the post-processor and not from the text; then begin == end
  bool operator==(const TokenWithOffsets&) const = default;
};

class Tokenizer {
 public:
  /// Reads `path` (a tokenizer.json). Throws std::runtime_error naming the file, the key and the
  /// reason for anything that is malformed or not supported.
  static Tokenizer load(const std::filesystem::path& path);

  /// The same from the bytes of a tokenizer.json; `name` stands for the file in messages.
  static Tokenizer parse(std::string_view bytes, const std::string& name);

  /// The same from a spec that was filled by other means. Throws std::runtime_error, "name: …", if
  /// its ids do not fit together.
  static Tokenizer from_spec(TokenizerSpec spec, const std::string& name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// The ids of `utf8`. Invalid UTF-8 is read as U+FFFD, as a lossy decoder would.
  std::vector<uint32_t> encode(std::string_view utf8, const EncodeOptions& options = {}) const;

  static constexpr size_t kAllIds = SIZE_MAX;
  struct Encoded {
    std::vector<uint32_t> ids;
    bool cut = false;  // the text has more ids than it was allowed
  };
  /// The same for text that will be cut: of the ids of the text itself the first `ids_max`. Those
  /// of the post-processor come before and behind them as ever and do not count.
  ///
  /// The time that this takes does not grow with what is cut off: a window at the beginning of the
  /// text is read, and a larger one only if it does not have that many ids which are the text's
  /// whatever follows the window. (So a single word of a megabyte, of which no id is known before
  /// its end, is read to its end. And so is everything if white space around added tokens belongs
  /// to them, if a normalizer replaces several characters at once, or if the text is cut neither by
  /// a pattern nor at marks for spaces.)
  Encoded encode_up_to(std::string_view utf8, size_t ids_max,
                       const EncodeOptions& options = {}) const;

  /// The ids of encode(), each with the bytes of `utf8` that it stands for. Twice as slow as
  /// encode(); `first_window` has no meaning here.
  ///
  /// Ranges are whole characters: of tokens that split a character each has all of it, and the
  /// space or mark that is put before a text belongs to the character behind it. What replaces a
  /// text has all of it. The range of
  /// a character that NFC composed has its accents. (Hugging Face's has the first character alone.)
  /// Where NFC also moves marks past each other, they are matched up in order. An invalid byte
  /// sequence is the range of its U+FFFD. An added token has the white space that it swallows.
  /// Tokens from the text leave none of its bytes out; begins never decrease, and neither do ends
  /// unless the text has added tokens in what another one swallows.
  ///
  /// `special` is Hugging Face's special_tokens_mask: a special token that is spelled in the text
  /// is a token of the text. Those before a text are at 0, those behind it at its end. The
  /// post-processor's `trim_offsets` is taken as false.
  std::vector<TokenWithOffsets> encode_with_offsets(std::string_view utf8,
                                                    const EncodeOptions& options = {}) const;

  /// The text of `ids`: their bytes, put together, with U+FFFD for what is invalid UTF-8 then; an
  /// id without an entry stands for nothing. The same as Hugging Face's `decode`: of a byte-level
  /// vocabulary with the byte-level decoder, whatever `decoder` the file asks for; of another one
  /// with the file's (decoder.h), which may take away a space at the beginning.
  /// `skip_special_tokens` leaves out the ids that is_special() says.
  std::string decode(std::span<const uint32_t> ids, bool skip_special_tokens) const;

  /// What texts that begin alike have in common: the ids with which all of them start, and what is
  /// left to be put in front of how they go on. For every text `more`
  ///   encode(beginning + more) == ids + encode(rest + more),
  /// without special tokens and without matching added tokens on both sides.
  struct Beginning {
    std::vector<uint32_t> ids;  // none if the tokenizer does not allow such a proof
    std::string rest;
  };
  Beginning encode_beginning(std::string_view utf8) const;

  /// The ids that the post-processor puts before and after a text (often none, and one end token).
  const std::vector<uint32_t>& prefix_tokens() const;
  const std::vector<uint32_t>& suffix_tokens() const;

  /// The id of an entry of the vocabulary or of an added token, by its exact content.
  std::optional<uint32_t> token_id(std::string_view token) const;

  /// The content of an id's entry, as the vocabulary writes it (`Ġthe` for " the"; see
  /// byte_level.h) or as the added token is spelled; nothing if there is none. Valid as long as
  /// the tokenizer.
  std::optional<std::string_view> token_content(uint32_t id) const;

  /// The bytes that an id stands for in decode() amid others, often no valid UTF-8 by themselves;
  /// none if it has no entry.
  std::string token_bytes(uint32_t id) const;

  /// Whether an id is an added token that the file marks as `special`.
  bool is_special(uint32_t id) const;

  /// Whether an id is that of an added token, special or not.
  bool is_added_token(uint32_t id) const;

  /// One more than the largest id.
  size_t id_count() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace espalier::text
