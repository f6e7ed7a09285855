#include "engine/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace espalier::engine {
namespace {

constexpr size_t kLengthBytes = 8;
/// The format's own limit; a larger header is a damaged length.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// Closes a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A whole file, mapped to read.
class Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    // Without O_NONBLOCK a FIFO of that name would block for ever.
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) fail(path, "cannot open the file", errno);
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) fail(path, "cannot read the file's size", errno);
    if (!S_ISREG(status.st_mode)) throw std::runtime_error(path.string() + ": not a regular file");
    if (static_cast<uint64_t>(status.st_size) < kLengthBytes) {
      throw std::runtime_error(path.string() + ": has " + std::to_string(status.st_size) +
                               " bytes, too few for a safetensors file");
    }
    size_ = static_cast<size_t>(status.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data_ == MAP_FAILED) fail(path, "cannot map the file", errno);
  }
  ~Mapping() { ::munmap(data_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  [[noreturn]] static void fail(const std::filesystem::path& path, const char* what, int error) {
    throw std::runtime_error(path.string() + ": " + what + ": " +
                             std::generic_category().message(error));
  }

  void* data_ = nullptr;
  size_t size_ = 0;
};

float f32_from_bf16(uint16_t half) { return std::bit_cast<float>(uint32_t{half} << 16); }

/// Free of branches, so that the loop around it becomes vector code.
float f32_from_f16(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{half & 0x7fffu} << 13;
  // Exponent and mantissa are in place but for the bias, 127 - 15: a multiplication by 2^112 mends
  // that, exactly, for subnormal numbers too. Infinities and NaNs want the largest exponent
  // instead.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude | 0x7f800000u;
  return std::bit_cast<float>(sign | (magnitude >= (0x7c00u << 13) ? special : finite));
}

template <float (*Convert)(uint16_t)>
void convert_halves(const std::byte* data, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t half;
    std::memcpy(&half, data + i * sizeof(half), sizeof(half));  // may be unaligned
    out[i] = Convert(half);
  }
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

std::string_view name_of(DataType type) {
  constexpr std::array<std::string_view, 3> kNames = {"F32", "F16", "BF16"};
  return kNames[static_cast<size_t>(type)];
}

size_t bytes_of(DataType type) { return type == DataType::kF32 ? 4 : 2; }

size_t TensorView::elements() const { return data.size() / bytes_of(dtype); }

void convert_to_f32(const TensorView& tensor, size_t first, size_t count, float* out) {
  if (first > tensor.elements() || count > tensor.elements() - first) {
    throw std::out_of_range("convert_to_f32: elements " + std::to_string(first) + " + " +
                            std::to_string(count) + " of " + std::to_string(tensor.elements()));
  }
  if (count == 0) return;
  const std::byte* const data = tensor.data.data() + first * bytes_of(tensor.dtype);
  switch (tensor.dtype) {
    case DataType::kF32:
      std::memcpy(out, data, count * sizeof(float));
      return;
    case DataType::kF16:
      convert_halves<f32_from_f16>(data, count, out);
      return;
    case DataType::kBF16:
      convert_halves<f32_from_bf16>(data, count, out);
      return;
  }
}

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path_in) : path(path_in), mapping(path_in) {}

  std::filesystem::path path;
  Mapping mapping;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> other_dtypes;
};

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>(path);
  const std::span<const std::byte> bytes = impl->mapping.bytes();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    throw std::runtime_error(path.string() + ": the safetensors header claims " +
                             std::to_string(header_bytes) + " bytes, but the file has " +
                             std::to_string(bytes.size()) + " and a header at most " +
                             std::to_string(kMaxHeaderBytes));
  }
  const std::string_view json(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
                              header_bytes);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + header_bytes);
  Header header = parse_header(json, data.size(), path.string());
  for (auto& [name, entry] : header.entries) {
    impl->tensors.emplace(name, TensorView{entry.dtype, std::move(entry.shape),
                                           data.subspan(entry.begin, entry.end - entry.begin)});
  }
  impl->other_dtypes = std::move(header.other_dtypes);
  return SafetensorsFile(std::move(impl));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::map<std::string, TensorView>& SafetensorsFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& SafetensorsFile::other_dtypes() const {
  return impl_->other_dtypes;
}
const std::filesystem::path& SafetensorsFile::path() const { return impl_->path; }

void SafetensorsFile::release_pages(const TensorView& tensor) const {
  if (tensor.data.empty()) return;
  // Outwards to whole pages: a neighbour's bytes come back from the file like ours.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::byte* const first = tensor.data.data();
  const size_t before = reinterpret_cast<uintptr_t>(first) % page;
  // Only advice: when it is refused, memory is given back later.
  (void)::madvise(const_cast<std::byte*>(first - before), before + tensor.data.size(),
                  MADV_DONTNEED);
}

}  // namespace espalier::engine
