#include "hub/content_hash.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr size_t kSha256Digits = 64;
constexpr size_t kSha1Digits = 40;

bool is_hexadecimal(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string hexadecimal(const unsigned char* bytes, size_t size) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4U];
    out += kDigits[bytes[i] & 15U];
  }
  return out;
}

}  // namespace

struct ContentHash::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

ContentHash::ContentHash(std::string_view etag, uint64_t size) : expected_(etag) {
  const bool sha256 = etag.size() == kSha256Digits;
  if (!is_hexadecimal(etag) || (!sha256 && etag.size() != kSha1Digits)) return;
  state_ = std::make_unique<State>();
  if (state_->context == nullptr ||
      EVP_DigestInit_ex(state_->context, sha256 ? EVP_sha256() : EVP_sha1(), nullptr) != 1)
    throw HubError("OpenSSL computes no " + std::string(sha256 ? "SHA-256" : "SHA-1") + " here");
  if (!sha256) {
    // Git hashes a blob behind a head of its own, which ends with a NUL.
    std::string head = "blob " + std::to_string(size);
    head += '\0';
    add(head);
  }
}

ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;

void ContentHash::add(std::string_view bytes) {
  if (state_ && EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1)
    throw HubError("OpenSSL failed to hash");
}

bool ContentHash::matches() {
  if (!state_) return true;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  return EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 &&
         hexadecimal(digest.data(), size) == expected_;
}

}  // namespace espalier::hub
