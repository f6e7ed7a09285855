#include "server/access/key_digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <stdexcept>

namespace espalier::server {

KeyDigest digest_of_key(std::string_view key) {
  KeyDigest digest{};
  unsigned int size = 0;
  if (::EVP_Digest(key.data(), key.size(), digest.data(), &size, ::EVP_sha256(), nullptr) != 1 ||
      size != digest.size()) {
    throw std::runtime_error("OpenSSL computes no SHA-256 here");
  }
  return digest;
}

bool same_digest(const KeyDigest& a, const KeyDigest& b) {
  return ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace espalier::server
