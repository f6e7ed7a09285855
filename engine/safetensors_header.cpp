// Parses and checks the JSON header of a safetensors file.
#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/in_quotes.h"
#include "engine/safetensors.h"

namespace espalier::engine {
namespace {

using nlohmann::json;

/// More dimensions than any real tensor has; bounds what a hostile shape may hold.
constexpr size_t kMaxRank = 16;

/// What the header says about one tensor, before it is checked.
struct RawEntry {
  std::optional<std::string> dtype;
  std::optional<std::vector<size_t>> shape;
  std::optional<std::vector<size_t>> offsets;
};

/// Takes the parser's events. A DOM would swallow duplicate keys and hold a hostile header in
/// memory several times over; this keeps what it needs and stops at the first thing that does not
/// belong.
class HeaderHandler final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderHandler(std::string file_name) : file_name_(std::move(file_name)) {}

  std::map<std::string, RawEntry> take_entries() { return std::move(entries_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number that is not an unsigned 64-bit integer");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return unexpected("a number");
    std::vector<size_t>& numbers = place_ == Place::kShape ? *entry_->shape : *entry_->offsets;
    if (numbers.size() == kMaxRank) refuse("has more than 16 numbers in " + in_quotes(field_));
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || field_ != "dtype") return unexpected("a string");
    entry_->dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    switch (place_) {
      case Place::kBeforeRoot:
        place_ = Place::kRoot;
        return true;
      case Place::kRoot:
        place_ = tensor_ == "__metadata__" ? Place::kMetadata : Place::kTensor;
        return true;
      default:
        return unexpected("an object");
    }
  }

  bool key(string_t& name) override {
    if (place_ == Place::kRoot) return tensor_key(name);
    field_ = name;
    if (place_ == Place::kMetadata) return true;
    const bool repeated = (name == "dtype" && entry_->dtype) ||
                          (name == "shape" && entry_->shape) ||
                          (name == "data_offsets" && entry_->offsets);
    if (repeated) refuse("has the key " + in_quotes(name) + " twice");
    if (name != "dtype" && name != "shape" && name != "data_offsets") {
      refuse("has the unknown key " + in_quotes(name));
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor && !(entry_->dtype && entry_->shape && entry_->offsets)) {
      refuse("lacks dtype, shape or data_offsets");
    }
    place_ = place_ == Place::kRoot ? Place::kAfterRoot : Place::kRoot;
    field_.clear();
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && field_ == "shape") {
      entry_->shape.emplace();
      place_ = Place::kShape;
      return true;
    }
    if (place_ == Place::kTensor && field_ == "data_offsets") {
      entry_->offsets.emplace();
      place_ = Place::kOffsets;
      return true;
    }
    return unexpected("an array");
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && entry_->offsets->size() != 2) {
      refuse("must have two numbers in data_offsets");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    throw std::runtime_error(file_name_ + ": the safetensors header is not valid JSON at byte " +
                             std::to_string(byte) + in_tensor());
  }

 private:
  enum class Place { kBeforeRoot, kRoot, kMetadata, kTensor, kShape, kOffsets, kAfterRoot };

  bool tensor_key(const std::string& name) {
    tensor_ = name;
    if (name == "__metadata__") {
      if (std::exchange(metadata_seen_, true)) refuse("is there twice");
      return true;
    }
    const auto [position, inserted] = entries_.try_emplace(name);
    if (!inserted) refuse("is there twice");
    entry_ = &position->second;
    return true;
  }

  std::string in_tensor() const {
    return tensor_.empty() ? "" : ", in tensor " + in_quotes(tensor_);
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::runtime_error(file_name_ + ": tensor " + in_quotes(tensor_) + " " + reason);
  }

  bool unexpected(const std::string& what) const {
    throw std::runtime_error(file_name_ + ": the safetensors header has " + what +
                             " in an unexpected place" + in_tensor() +
                             (field_.empty() ? "" : ", key " + in_quotes(field_)));
  }

  std::string file_name_;
  Place place_ = Place::kBeforeRoot;
  std::string tensor_;  // the last key of the root object
  std::string field_;   // the last key of the tensor's object
  RawEntry* entry_ = nullptr;
  std::map<std::string, RawEntry> entries_;
  bool metadata_seen_ = false;
};

/// Bytes an element takes, for the types that the format defines; none for types that came later.
std::optional<size_t> bytes_of_dtype(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, size_t>, 16> kSizes = {{{"BOOL", 1},
                                                                           {"U8", 1},
                                                                           {"I8", 1},
                                                                           {"F8_E5M2", 1},
                                                                           {"F8_E4M3", 1},
                                                                           {"F8_E8M0", 1},
                                                                           {"I16", 2},
                                                                           {"U16", 2},
                                                                           {"F16", 2},
                                                                           {"BF16", 2},
                                                                           {"I32", 4},
                                                                           {"U32", 4},
                                                                           {"F32", 4},
                                                                           {"I64", 8},
                                                                           {"U64", 8},
                                                                           {"F64", 8}}};
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return std::nullopt;
}

std::optional<DataType> data_type(std::string_view dtype) {
  for (const DataType type : {DataType::kF32, DataType::kF16, DataType::kBF16}) {
    if (name_of(type) == dtype) return type;
  }
  return std::nullopt;
}

/// shape[0] · shape[1] · … · element_bytes, or nothing when a 64-bit number cannot hold it.
std::optional<size_t> byte_size(const std::vector<size_t>& shape, size_t element_bytes) {
  // A zero anywhere makes the tensor empty, however large the other dimensions are.
  if (std::find(shape.begin(), shape.end(), size_t{0}) != shape.end()) return 0;
  size_t bytes = element_bytes;
  for (const size_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

struct NamedRange {
  size_t begin, end;
  std::string_view name;
};

/// The format wants every byte of the data in exactly one tensor: bytes that belong to two could be
/// a trick, bytes that belong to none are a sign of damage.
void check_ranges(std::vector<NamedRange> ranges, size_t data_bytes, const std::string& file_name) {
  std::sort(ranges.begin(), ranges.end(), [](const NamedRange& a, const NamedRange& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  size_t covered = 0;
  for (const NamedRange& range : ranges) {
    if (range.begin != covered) {
      throw std::runtime_error(file_name + ": tensor " + in_quotes(range.name) +
                               " begins at data byte " + std::to_string(range.begin) +
                               (range.begin < covered ? ", within another tensor that ends at "
                                                      : ", after a gap that begins at ") +
                               std::to_string(covered));
    }
    covered = range.end;
  }
  if (covered != data_bytes) {
    throw std::runtime_error(file_name + ": the tensors end at data byte " +
                             std::to_string(covered) + ", but the file has " +
                             std::to_string(data_bytes) + " data bytes");
  }
}

}  // namespace

SafetensorsFile::Header SafetensorsFile::parse_header(std::string_view text, size_t data_bytes,
                                                      const std::string& file_name) {
  HeaderHandler handler(file_name);
  if (!json::sax_parse(text, &handler)) {
    throw std::runtime_error(file_name + ": the safetensors header is not valid");
  }
  Header header;
  std::vector<NamedRange> ranges;
  std::map<std::string, RawEntry> raw_entries = handler.take_entries();
  for (auto& [name, raw] : raw_entries) {
    const auto refuse = [&, &tensor = name](const std::string& reason) {
      throw std::runtime_error(file_name + ": tensor " + in_quotes(tensor) + " " + reason);
    };
    const size_t begin = (*raw.offsets)[0];
    const size_t end = (*raw.offsets)[1];
    if (begin > end || end > data_bytes) {
      refuse("has data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
             "), but the file has " + std::to_string(data_bytes) + " data bytes");
    }
    if (const std::optional<size_t> element_bytes = bytes_of_dtype(*raw.dtype)) {
      const std::optional<size_t> bytes = byte_size(*raw.shape, *element_bytes);
      if (!bytes) refuse("has a shape too large for 64 bits");
      if (*bytes != end - begin) {
        refuse("has a shape that needs " + std::to_string(*bytes) + " bytes, but data_offsets of " +
               std::to_string(end - begin));
      }
    }
    ranges.push_back({begin, end, name});
    if (const std::optional<DataType> type = data_type(*raw.dtype)) {
      header.entries.emplace(name, Entry{*type, std::move(*raw.shape), begin, end});
    } else {
      header.other_dtypes.emplace(name, std::move(*raw.dtype));
    }
  }
  check_ranges(std::move(ranges), data_bytes, file_name);
  return header;
}

}  // namespace espalier::engine
