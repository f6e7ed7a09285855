#include "engine/safetensors.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "engine/mapped_file.h"

namespace espalier::engine {
namespace {

constexpr size_t kLengthBytes = 8;
/// The format's own limit; a larger header is a damaged length.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::filesystem::path& path_in)
      : path(path_in), mapping(path_in, kLengthBytes, "safetensors") {}

  std::filesystem::path path;
  MappedFile mapping;
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
  engine::release_pages(tensor.data);
}

}  // namespace espalier::engine
