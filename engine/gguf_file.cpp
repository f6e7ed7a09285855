#include "engine/gguf_file.h"

#include <utility>

#include "engine/mapped_file.h"

namespace espalier::engine {
namespace {

constexpr size_t kLeastBytes = 24;  // magic, version, two counts

}  // namespace

struct GgufFile::Impl {
  explicit Impl(const std::filesystem::path& path_in)
      : path(path_in), mapping(path_in, kLeastBytes, "GGUF") {}

  std::filesystem::path path;
  MappedFile mapping;
  GgufMetadata metadata;
  std::map<std::string, TensorView> tensors;
  std::map<std::string, std::string> other_types;
};

GgufFile GgufFile::open(const std::filesystem::path& path) {
  auto impl = std::make_unique<Impl>(path);
  const std::span<const std::byte> file = impl->mapping.bytes();
  Header header = parse_header(file, path.string());
  for (auto& [name, entry] : header.entries) {
    impl->tensors.emplace(name, TensorView{entry.dtype, std::move(entry.shape),
                                           file.subspan(entry.begin, entry.end - entry.begin)});
  }
  impl->metadata = std::move(header.metadata);
  impl->other_types = std::move(header.other_types);
  return GgufFile(std::move(impl));
}

GgufFile::GgufFile(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const GgufMetadata& GgufFile::metadata() const { return impl_->metadata; }
const std::map<std::string, TensorView>& GgufFile::tensors() const { return impl_->tensors; }
const std::map<std::string, std::string>& GgufFile::other_types() const {
  return impl_->other_types;
}
const std::filesystem::path& GgufFile::path() const { return impl_->path; }

void GgufFile::release_pages(const TensorView& tensor) const { engine::release_pages(tensor.data); }

}  // namespace espalier::engine
