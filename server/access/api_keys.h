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
  /// Each key is a tenant of its own, unless `share_across_keys`.
  explicit ApiKeys(bool share_across_keys) : share_across_keys_(share_across_keys) {}

  /// Adds those of `file`: `NAME KEY [WEIGHT] [admin]` a line; blank lines and those that start
  /// with # are skipped. Throws std::runtime_error that names file, line and mend, and never quotes
  /// a key.
  void load(const std::string& file);
  /// The same of the file's text.
  void parse(std::string_view text, const std::string& file);
  /// Adds one that came as `option`, and is named after it and its number ("api-key-1"). Throws
  /// std::runtime_error as load() does.
  void add(const std::string& option, std::string_view key, bool admin);

  /// Whom `authorization`, the value of the header field, stands for; kUnauthorized if nobody.
  Result<Identity> identify(std::string_view authorization) const;

  size_t size() const { return keys_.size(); }
  /// In the file's order.
  std::vector<std::string> names() const;

 private:
  struct Key {
    std::string name;
    KeyDigest digest;
    Identity identity;
  };
  void add_line(std::string_view line);
  void add_key(std::string name, std::string_view key, double weight, bool admin);

  bool share_across_keys_;
  std::vector<Key> keys_;
};

}  // namespace espalier::server
