#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>

namespace espalier::engine {
namespace {

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

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int error) {
  throw std::runtime_error(path.string() + ": " + what + ": " +
                           std::generic_category().message(error));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, size_t least_bytes, const char* format) {
  // Without O_NONBLOCK a FIFO of that name would block for ever.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(path, "cannot open the file", errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail(path, "cannot read the file's size", errno);
  if (!S_ISREG(status.st_mode)) throw std::runtime_error(path.string() + ": not a regular file");
  if (static_cast<uint64_t>(status.st_size) < least_bytes) {
    throw std::runtime_error(path.string() + ": has " + std::to_string(status.st_size) +
                             " bytes, too few for a " + format + " file");
  }
  size_ = static_cast<size_t>(status.st_size);
  data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data_ == MAP_FAILED) fail(path, "cannot map the file", errno);
}

MappedFile::~MappedFile() { ::munmap(data_, size_); }

void release_pages(std::span<const std::byte> mapped) {
  if (mapped.empty()) return;
  // Outwards to whole pages: a neighbour's bytes come back from the file like ours.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = reinterpret_cast<uintptr_t>(mapped.data()) % page;
  // Only advice: when it is refused, memory is given back later.
  (void)::madvise(const_cast<std::byte*>(mapped.data() - before), before + mapped.size(),
                  MADV_DONTNEED);
}

}  // namespace espalier::engine
