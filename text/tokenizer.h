// A Hugging Face `tokenizer.json`, read once, giving exactly the ids of Hugging Face's
// `tokenizers`: added tokens, NFC, the pre-tokenizer's regex, byte-level BPE, post-processor.
//
// Thread contract: a Tokenizer is immutable after load(); any number of threads may call it at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::text {

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

class Tokenizer {
 public:
  /// Reads `path` (a tokenizer.json). Throws std::runtime_error naming the file, the key and the
  /// reason for anything that is malformed or not supported.
  static Tokenizer load(const std::filesystem::path& path);

  /// The same from the bytes of a tokenizer.json; `name` stands for the file in messages.
  static Tokenizer parse(std::string_view bytes, const std::string& name);

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
  /// to them, or if the pre-tokenizer does not cut the text into pieces by a pattern.)
  Encoded encode_up_to(std::string_view utf8, size_t ids_max,
                       const EncodeOptions& options = {}) const;

  /// What texts that begin alike have in common: the ids with which all of them start, and what is
  /// left to be put in front of how they go on. For every text `more`
  ///   encode(beginning + more) == ids + encode(rest + more),
  /// without special tokens and without matching added tokens on both sides.
  struct Beginning {
    std::vector<uint32_t> ids;  // none if the pre-tokenizer does not allow such a proof
    std::string rest;
  };
  Beginning encode_beginning(std::string_view utf8) const;

  /// The ids that the post-processor puts before and after a text (often none, and one end token).
  const std::vector<uint32_t>& prefix_tokens() const;
  const std::vector<uint32_t>& suffix_tokens() const;

  /// The id of an entry of the vocabulary or of an added token, by its exact content.
  std::optional<uint32_t> token_id(std::string_view token) const;

  /// One more than the largest id.
  size_t id_count() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace espalier::text
