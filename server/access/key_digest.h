// Digests of API keys, compared in constant time. The only file that includes OpenSSL is
// key_digest.cpp.
//
// Thread contract: functions without state.
#pragma once

#include <array>
#include <string_view>

namespace espalier::server {

/// SHA-256.
using KeyDigest = std::array<unsigned char, 32>;

/// Throws std::runtime_error if OpenSSL fails.
KeyDigest digest_of_key(std::string_view key);

/// Takes as long for any two digests: how long a comparison took tells nothing about the key.
bool same_digest(const KeyDigest& a, const KeyDigest& b);

}  // namespace espalier::server
