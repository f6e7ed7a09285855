// Base64 of embeddings, as OpenAI's clients decode them.
#pragma once

#include <span>
#include <string>

namespace espalier::server {

/// Appends the base64 (RFC 4648, padded) of `values` as little-endian f32 to `out`.
void append_base64(std::span<const float> values, std::string& out);

}  // namespace espalier::server
