#include "server/http/body_framing.h"

#include <algorithm>

namespace espalier::server {
namespace {

/// Size digits and extensions of a chunk. 15 digits fit in 60 bits.
constexpr size_t kSizeDigitsMax = 15;
constexpr size_t kSizeLineBytesMax = 256;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

BodyFraming::BodyFraming(const RequestHead& head) {
  if (head.body == BodyKind::kLength) {
    remaining_ = head.content_length;
    state_ = remaining_ > 0 ? State::kContent : State::kComplete;
  } else if (head.body == BodyKind::kChunked) {
    state_ = State::kSize;
  }
}

size_t BodyFraming::allowance(size_t wanted) const {
  if (state_ == State::kComplete) return 0;
  if (in_content()) return static_cast<size_t>(std::min<uint64_t>(wanted, remaining_));
  return std::min<size_t>(wanted, 1);
}

bool BodyFraming::accept(std::string_view bytes) {
  for (size_t i = 0; i < bytes.size();) {
    if (!in_content()) {
      if (!accept_frame(bytes[i++])) return false;
      continue;
    }
    const auto taken = std::min<uint64_t>(bytes.size() - i, remaining_);
    remaining_ -= taken;
    content_bytes_ += taken;
    i += static_cast<size_t>(taken);
    if (remaining_ == 0) state_ = state_ == State::kContent ? State::kComplete : State::kChunkCr;
  }
  return true;
}

bool BodyFraming::accept_frame(char c) {
  switch (state_) {
    case State::kSize: {
      if (const int digit = hex_digit(c); digit >= 0) {
        remaining_ = remaining_ * 16 + static_cast<uint64_t>(digit);
        return ++line_bytes_ <= kSizeDigitsMax;
      }
      if (line_bytes_ == 0) return false;
      if (c == '\r') {
        state_ = State::kSizeEnd;
        return true;
      }
      state_ = State::kExtension;
      return c == ';';
    }
    case State::kExtension:
      if (c == '\r') state_ = State::kSizeEnd;
      return c != '\n' && ++line_bytes_ <= kSizeLineBytesMax;
    case State::kSizeEnd:
      line_bytes_ = 0;
      state_ = remaining_ > 0 ? State::kChunk : State::kLastCr;
      return c == '\n';
    case State::kChunkCr:
      state_ = State::kChunkLf;
      return c == '\r';
    case State::kChunkLf:
      state_ = State::kSize;
      return c == '\n';
    case State::kLastCr:
      state_ = State::kLastLf;
      return c == '\r';
    case State::kLastLf:
      state_ = State::kComplete;
      return c == '\n';
    case State::kContent:
    case State::kChunk:
    case State::kComplete:
      break;
  }
  return false;  // a byte behind the end
}

}  // namespace espalier::server
