// The decoder of a vocabulary that is written in characters: from the entries of ids to text, as
// Hugging Face's `decoders` (tokenizers 0.22) do. `Replace`, `ByteFallback`, `Fuse`, `Strip` and
// `Metaspace`, in any order.
//
// Thread contract: immutable after construction.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace espalier::text {

struct ReplaceDecoder {
  std::string pattern, content;  // the pattern is not empty
};
/// `<0x0A>` is the byte 10. Bytes in a row are read together; if they are no valid UTF-8, each of
/// them becomes U+FFFD.
struct ByteFallbackDecoder {};
/// Joins what there is to one piece.
struct FuseDecoder {};
/// Removes `content`, a character, up to `start` times at the beginning of each piece and up to
/// `stop` times at its end.
struct StripDecoder {
  std::string content;
  size_t start = 0, stop = 0;
};
/// Marks are spaces; those in the first piece are nothing if the tokenizer puts one there.
struct MetaspaceDecoder {
  std::string mark;
  bool prepended = true;
};

class Decoder {
 public:
  using Step = std::variant<ReplaceDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder,
                            MetaspaceDecoder>;

  /// Without steps, entries are joined with spaces, as Hugging Face does without a decoder.
  Decoder() = default;
  explicit Decoder(std::vector<Step> steps) : steps_(std::move(steps)) {}

  /// The text of entries in a row, valid UTF-8 as they are.
  std::string decode(std::vector<std::string> entries) const;

  /// The bytes that one entry stands for amid others: without what Strip and Metaspace remove at
  /// the edges, and a byte as it is.
  std::string entry_bytes(std::string_view entry) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace espalier::text
