#include "server/api/embedding_encoding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "server/api/base64.h"
#include "server/api/json_request.h"

namespace espalier::server {
namespace {

constexpr std::array<std::pair<std::string_view, EmbeddingEncoding>, 6> kNames{{
    {"float", EmbeddingEncoding::kFloat},
    {"base64", EmbeddingEncoding::kBase64},
    {"int8", EmbeddingEncoding::kInt8},
    {"uint8", EmbeddingEncoding::kUint8},
    {"binary", EmbeddingEncoding::kBinary},
    {"ubinary", EmbeddingEncoding::kUbinary},
}};

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

template <typename Number>
void append_numbers(size_t count, const Number& number, std::string& out) {
  out += '[';
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    out += std::to_string(number(i));
  }
  out += ']';
}

/// Each value as one of -127 … 127, plus `offset`.
void append_bytes(std::span<const float> embedding, int offset, std::string& out) {
  float largest = 0;
  for (const float value : embedding) largest = std::max(largest, std::abs(value));
  // In double: of the smallest floats it would be infinite.
  const double scale = largest > 0 ? 127.0 / largest : 0;
  append_numbers(
      embedding.size(),
      [&](size_t i) { return static_cast<int>(std::lround(embedding[i] * scale)) + offset; }, out);
}

/// Eight signs a byte, plus `offset`; what the last byte lacks is 0.
void append_bits(std::span<const float> embedding, int offset, std::string& out) {
  const auto byte = [&](size_t index) {
    int bits = 0;
    for (size_t i = 8 * index; i < 8 * index + 8; ++i)
      bits = bits << 1 | (i < embedding.size() && embedding[i] > 0 ? 1 : 0);
    return bits + offset;
  };
  append_numbers((embedding.size() + 7) / 8, byte, out);
}

bool append_floats(std::span<const float> embedding, std::string& out) {
  out += '[';
  bool first = true;
  for (const float value : embedding) {
    if (!std::exchange(first, false)) out += ',';
    if (!append_json_float(value, out)) return false;
  }
  out += ']';
  return true;
}

}  // namespace

std::optional<EmbeddingEncoding> embedding_encoding(std::string_view name) {
  for (const auto& [known, encoding] : kNames)
    if (known == name) return encoding;
  return std::nullopt;
}

std::string_view name_of(EmbeddingEncoding encoding) {
  return kNames[static_cast<size_t>(encoding)].first;
}

ApiError unknown_encoding(const std::string& field) {
  return invalid_param(field, "`" + field +
                                  "` must be \"float\", \"base64\", \"int8\", \"uint8\", "
                                  "\"binary\" or \"ubinary\"");
}

bool append_embedding(std::span<const float> embedding, EmbeddingEncoding encoding,
                      std::string& out) {
  if (encoding == EmbeddingEncoding::kFloat) return append_floats(embedding, out);
  if (!is_finite(embedding)) return false;
  switch (encoding) {
    case EmbeddingEncoding::kFloat:
      break;
    case EmbeddingEncoding::kBase64:
      out += '"';
      append_base64(embedding, out);
      out += '"';
      break;
    case EmbeddingEncoding::kInt8:
      append_bytes(embedding, 0, out);
      break;
    case EmbeddingEncoding::kUint8:
      append_bytes(embedding, 128, out);
      break;
    case EmbeddingEncoding::kBinary:
      append_bits(embedding, -128, out);
      break;
    case EmbeddingEncoding::kUbinary:
      append_bits(embedding, 0, out);
      break;
  }
  return true;
}

size_t text_bytes_per_value(EmbeddingEncoding encoding) {
  switch (encoding) {
    case EmbeddingEncoding::kFloat:
      return 2 * 13;
    case EmbeddingEncoding::kBase64:
      return 2 * 6;
    case EmbeddingEncoding::kInt8:
      return 2 * 5;
    case EmbeddingEncoding::kUint8:
      return 2 * 4;
    case EmbeddingEncoding::kBinary:
    case EmbeddingEncoding::kUbinary:
      return 2 * 1;  // of a byte for eight values
  }
  return 0;
}

ApiError not_finite(size_t input) {
  ApiError error;
  error.message =
      "the model gave a value that is not a finite number for input " + std::to_string(input);
  return error;
}

std::optional<ApiError> append_embedding_list(const std::vector<std::vector<float>>& embeddings,
                                              EmbeddingEncoding encoding, std::string& out) {
  out += '[';
  for (size_t i = 0; i < embeddings.size(); ++i) {
    if (i > 0) out += ',';
    if (!append_embedding(embeddings[i], encoding, out)) return not_finite(i);
  }
  out += ']';
  return std::nullopt;
}

}  // namespace espalier::server
