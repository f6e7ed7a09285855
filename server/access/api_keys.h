// The API keys that a server takes, and whom each stands for.
//
// Thread contract: immutable once made; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/access/identity.h"
#include "server/access/key_digest.h"
#include "server/api_error.h"

namespace espalier::server {

class ApiKeys {
 public:
  /// Reads `file`: `NAME KEY [WEIGHT]` a line; blank lines and those that start with # are
  /// skipped. Each key is a tenant of its own, unless `share_across_keys`. Throws
  /// std::runtime_error that names file, line and mend, and never quotes a key.
  static ApiKeys load(const std::string& file, bool share_across_keys);
  /// The same of the file's text.
  static ApiKeys parse(std::string_view text, const std::string& file, bool share_across_keys);

  /// Whom `authorization`, the value of the header field, stands for; kUnauthorized if nobody.
  Result<Identity> identify(std::string_view authorization) const;

  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::string name;
    KeyDigest digest;
    Identity identity;
  };
  void add_line(std::string_view line, bool share_across_keys);

  std::vector<Key> keys_;
};

}  // namespace espalier::server
