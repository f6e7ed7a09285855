// Parses and checks what a GGUF file has before its data.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "engine/gguf_file.h"
#include "engine/in_quotes.h"

namespace espalier::engine {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldestVersion = 2, kNewestVersion = 3;
constexpr uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
/// What the largest models have is far less; bounds how much more memory than bytes a file of tiny
/// entries may take.
constexpr uint64_t kMaxKeys = 65'536, kMaxTensors = 65'536;
constexpr size_t kMaxNameBytes = 65'535;  // of a key, says the format; of a tensor's name it is 64
constexpr size_t kMaxRank = 4;

/// GGML's number of a type, and its name; a DataType where it can be read.
struct TensorType {
  uint32_t number;
  std::string_view name;
};
constexpr std::array<TensorType, 34> kTensorTypes = {
    {{0, "F32"},     {1, "F16"},    {2, "Q4_0"},     {3, "Q4_1"},    {6, "Q5_0"},     {7, "Q5_1"},
     {8, "Q8_0"},    {9, "Q8_1"},   {10, "Q2_K"},    {11, "Q3_K"},   {12, "Q4_K"},    {13, "Q5_K"},
     {14, "Q6_K"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
     {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
     {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {30, "BF16"},    {34, "TQ1_0"},
     {35, "TQ2_0"},  {39, "MXFP4"}, {40, "NVFP4"},   {41, "Q1_0"}}};

std::string type_name(uint32_t number) {
  for (const TensorType& type : kTensorTypes) {
    if (type.number == number) return std::string(type.name);
  }
  return "number " + std::to_string(number);
}

std::optional<DataType> data_type(std::string_view name) {
  for (auto type = DataType::kF32; type <= DataType::kQ6_K;
       type = static_cast<DataType>(static_cast<int>(type) + 1)) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

/// Reads one thing after the other, never past the end.
class HeaderReader {
 public:
  HeaderReader(std::string_view file, const std::string& file_name)
      : file_(file), file_name_(file_name) {}

  size_t position() const { return position_; }
  size_t left() const { return file_.size() - position_; }

  template <typename T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, bytes(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string_view bytes(uint64_t count, const std::string& what) {
    if (count > left()) {
      throw std::runtime_error(file_name_ + ": " + what + " needs " + std::to_string(count) +
                               " bytes at byte " + std::to_string(position_) +
                               ", but the file has " + std::to_string(file_.size()) +
                               "; it is damaged or was not downloaded whole");
    }
    const std::string_view found = file_.substr(position_, count);
    position_ += count;
    return found;
  }

  std::string_view string(const std::string& what) {
    const auto length = number<uint64_t>(what);
    return bytes(length, what);
  }

  std::string_view name(const std::string& what) {
    const std::string_view found = string(what);
    if (found.size() > kMaxNameBytes) refuse(what + " is longer than 65535 bytes");
    return found;
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw std::runtime_error(file_name_ + ": " + reason);
  }

 private:
  std::string_view file_;
  const std::string& file_name_;
  size_t position_ = 0;
};

struct Counts {
  uint64_t tensors, keys;
};

Counts read_counts(HeaderReader& in) {
  if (in.bytes(kMagic.size(), "the magic") != kMagic) {
    in.refuse("does not begin with GGUF; it is not a GGUF file");
  }
  const auto version = in.number<uint32_t>("the version");
  if (version < kOldestVersion || version > kNewestVersion) {
    const bool swapped = __builtin_bswap32(version) <= kNewestVersion;
    in.refuse(swapped && version != 0 && version != 1
                  ? "is big-endian, which is not supported; convert it with gguf_convert_endian.py"
                  : "has GGUF version " + std::to_string(version) +
                        "; supported: 2 and 3. Convert the model again");
  }
  Counts counts;
  counts.tensors = in.number<uint64_t>("the number of tensors");
  counts.keys = in.number<uint64_t>("the number of keys");
  if (counts.tensors > kMaxTensors || counts.keys > kMaxKeys) {
    in.refuse("claims " + std::to_string(counts.tensors) + " tensors and " +
              std::to_string(counts.keys) + " keys; the most are 65536 of each");
  }
  return counts;
}

GgufType read_type(HeaderReader& in, const std::string& what) {
  const auto number = in.number<uint32_t>(what);
  if (number > static_cast<uint32_t>(GgufType::kFloat64)) {
    in.refuse(what + " has the unknown type " + std::to_string(number));
  }
  return static_cast<GgufType>(number);
}

GgufValue read_array(HeaderReader& in, const std::string& what) {
  GgufValue value;
  value.type = read_type(in, what);
  if (value.type == GgufType::kArray) in.refuse(what + " is an array of arrays, which no key has");
  const auto count = in.number<uint64_t>(what);
  const size_t element = value.type == GgufType::kString ? sizeof(uint64_t) : bytes_of(value.type);
  if (count > in.left() / element) {
    in.refuse(what + " claims " + std::to_string(count) + " elements, but the file ends " +
              std::to_string(in.left()) + " bytes behind it");
  }
  value.array_elements = count;
  if (value.type != GgufType::kString) {
    value.bytes = in.bytes(count * element, what);
    return value;
  }
  HeaderReader elements = in;  // to walk over them, and then to take them at once
  for (uint64_t i = 0; i < count; ++i) (void)elements.string(what);
  value.bytes = in.bytes(elements.position() - in.position(), what);
  return value;
}

GgufMetadata read_metadata(HeaderReader& in, uint64_t keys, const std::string& file_name) {
  GgufMetadata metadata(file_name);
  for (uint64_t i = 0; i < keys; ++i) {
    const std::string_view key = in.name("key " + std::to_string(i));
    const std::string what = "key " + in_quotes(key);
    GgufValue value;
    value.type = read_type(in, what);
    if (value.type == GgufType::kArray) {
      value = read_array(in, what);
    } else if (value.type == GgufType::kString) {
      value.bytes = in.string(what);
    } else {
      value.bytes = in.bytes(bytes_of(value.type), what);
    }
    if (!metadata.add(key, value)) in.refuse(what + " is there twice");
  }
  return metadata;
}

/// What the file says about one tensor.
struct RawTensor {
  std::vector<size_t> shape;
  uint32_t type;
  uint64_t offset;  // in the data
};

RawTensor read_tensor(HeaderReader& in, const std::string& what) {
  RawTensor tensor;
  const auto rank = in.number<uint32_t>(what);
  if (rank > kMaxRank) in.refuse(what + " has " + std::to_string(rank) + " dimensions; most are 4");
  for (uint32_t i = 0; i < rank; ++i) tensor.shape.push_back(in.number<uint64_t>(what));
  std::reverse(tensor.shape.begin(), tensor.shape.end());
  tensor.type = in.number<uint32_t>(what);
  tensor.offset = in.number<uint64_t>(what);
  return tensor;
}

uint64_t read_alignment(const GgufMetadata& metadata) {
  const uint64_t alignment = metadata.unsigned_integer(kAlignmentKey).value_or(kDefaultAlignment);
  if (!std::has_single_bit(alignment)) {
    metadata.fail(kAlignmentKey, std::to_string(alignment) + " is not a power of two");
  }
  return alignment;
}

struct NamedRange {
  size_t begin, end;
  std::string_view name;
};

void refuse_overlaps(std::vector<NamedRange> ranges, const HeaderReader& in) {
  std::sort(ranges.begin(), ranges.end(), [](const NamedRange& a, const NamedRange& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      in.refuse("tensor " + in_quotes(ranges[i].name) + " begins at byte " +
                std::to_string(ranges[i].begin) + ", within tensor " +
                in_quotes(ranges[i - 1].name));
    }
  }
}

}  // namespace

GgufFile::Header GgufFile::parse_header(std::span<const std::byte> file,
                                        const std::string& file_name) {
  HeaderReader in({reinterpret_cast<const char*>(file.data()), file.size()}, file_name);
  const Counts counts = read_counts(in);
  Header header;
  header.metadata = read_metadata(in, counts.keys, file_name);
  const uint64_t alignment = read_alignment(header.metadata);

  std::map<std::string, RawTensor> tensors;
  for (uint64_t i = 0; i < counts.tensors; ++i) {
    const std::string name(in.name("tensor " + std::to_string(i)));
    const std::string what = "tensor " + in_quotes(name);
    if (!tensors.emplace(name, read_tensor(in, what)).second) in.refuse(what + " is there twice");
  }

  // The data begins at the next multiple of the alignment; a file without any may end before it.
  const size_t padding = (alignment - in.position() % alignment) % alignment;
  const size_t data_bytes = in.left() > padding ? in.left() - padding : 0;
  const size_t data_begin = file.size() - data_bytes;
  std::vector<NamedRange> ranges;
  for (auto& [name, raw] : tensors) {
    const std::string what = "tensor " + in_quotes(name);
    const std::string type = type_name(raw.type);
    const std::optional<DataType> dtype = data_type(type);
    if (!dtype) {
      header.other_types.emplace(name, type);
      continue;
    }
    const std::optional<size_t> bytes = tensor_bytes(*dtype, raw.shape);
    if (!bytes) {
      in.refuse(what + " has dimensions that are too large, or rows that are not whole blocks of " +
                type);
    }
    if (raw.offset % alignment != 0) {
      in.refuse(what + " begins at data byte " + std::to_string(raw.offset) +
                ", which is no multiple of " + std::to_string(alignment));
    }
    if (raw.offset > data_bytes || *bytes > data_bytes - raw.offset) {
      in.refuse(what + " needs " + std::to_string(*bytes) + " bytes at data byte " +
                std::to_string(raw.offset) + ", but the file has " + std::to_string(data_bytes) +
                " data bytes; it is damaged or was not downloaded whole");
    }
    const size_t begin = data_begin + raw.offset;
    if (*bytes > 0) ranges.push_back({begin, begin + *bytes, name});
    header.entries.emplace(name, Entry{*dtype, std::move(raw.shape), begin, begin + *bytes});
  }
  refuse_overlaps(std::move(ranges), in);
  return header;
}

}  // namespace espalier::engine
