// Where the body of a request ends on the wire: a strict observer of the bytes as they are read.
//
// The HTTP library decodes chunks, but takes "+5", "-1", "5garbage" for sizes, and ends a body at a
// malformed one without an error; what follows would then count as the next request. Bytes that
// this class does not accept never reach it.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/http/request_head.h"

namespace espalier::server {

class BodyFraming {
 public:
  explicit BodyFraming(const RequestHead& head);

  /// The body has been read to its end.
  bool complete() const { return state_ == State::kComplete; }
  /// The next byte is one of content, not of a chunk's frame.
  bool in_content() const { return state_ == State::kContent || state_ == State::kChunk; }
  /// How many of `wanted` bytes may be read now, at least one unless complete(): never more than
  /// the body has, and of a chunk's frame one at a time.
  size_t allowance(size_t wanted) const;
  /// Observes bytes that were read, at most allowance(). false: they are malformed.
  bool accept(std::string_view bytes);
  /// Bytes of content seen so far, before decoding, without frames.
  uint64_t content_bytes() const { return content_bytes_; }

 private:
  enum class State : uint8_t {
    kContent,    // of a body with a length
    kSize,       // hexadecimal digits of a chunk's size
    kExtension,  // behind ';' on its line, ignored
    kSizeEnd,    // LF of that line
    kChunk,      // a chunk's content
    kChunkCr,    // CR LF behind it
    kChunkLf,
    kLastCr,  // CR LF behind the last chunk; trailer fields are not read
    kLastLf,
    kComplete,
  };
  bool accept_frame(char c);

  State state_ = State::kComplete;
  uint64_t remaining_ = 0;  // of the content or the chunk; the size so far in kSize
  size_t line_bytes_ = 0;   // of a chunk's size line
  uint64_t content_bytes_ = 0;
};

}  // namespace espalier::server
