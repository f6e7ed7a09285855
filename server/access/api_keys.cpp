#include "server/access/api_keys.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace espalier::server {
namespace {

constexpr char kLineForm[] = "NAME KEY [WEIGHT] [admin]";
constexpr std::string_view kAdmin = "admin";
constexpr double kWeightMin = 1e-3;
constexpr double kWeightMax = 1e3;

/// Takes the next word off `line`; empty at its end.
std::string_view take_word(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const auto word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

/// Whether a client can send `key` in a header field, unchanged by whoever is between.
bool can_be_sent(std::string_view key) {
  return std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
}

double parse_weight(std::string_view word) {
  double weight = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), weight);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  // Written so that NaN is refused too.
  if (!whole || !(weight >= kWeightMin && weight <= kWeightMax)) {
    throw std::runtime_error("the weight must be a number from 0.001 to 1000");
  }
  return weight;
}

ApiError unauthorized(std::string message) {
  ApiError error;
  error.kind = ErrorKind::kUnauthorized;
  error.message = std::move(message);
  error.code = "invalid_api_key";
  return error;
}

/// The key of "Bearer KEY"; nullopt for anything else. The scheme's case does not matter (RFC
/// 9110).
std::optional<std::string_view> bearer_key(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const auto matches = [](char sent, char wanted) { return (sent | 0x20) == wanted; };
  if (authorization.size() <= kScheme.size() ||
      !std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, matches)) {
    return std::nullopt;
  }
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

}  // namespace

void ApiKeys::load(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  in.peek();  // a folder can be opened, but not read
  if (in) text << in.rdbuf();
  if (!in.is_open() || in.bad()) {
    throw std::runtime_error("--api-key-file " + file +
                             " cannot be read; it must be a file of lines `" + kLineForm + "`");
  }
  parse(text.str(), file);
}

void ApiKeys::parse(std::string_view text, const std::string& file) {
  const size_t before = keys_.size();
  size_t number = 0;
  while (!text.empty()) {
    ++number;
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    try {
      add_line(line);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(file + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (keys_.size() == before) {
    throw std::runtime_error(file + " holds no key; write one a line, `" + kLineForm +
                             "`, or leave --api-key-file out to serve everyone");
  }
}

void ApiKeys::add(const std::string& option, std::string_view key, bool admin) {
  try {
    add_key(option.substr(option.find_first_not_of('-')) + "-" + std::to_string(keys_.size() + 1),
            key, 1, admin);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(option + ": " + error.what());
  }
}

std::vector<std::string> ApiKeys::names() const {
  std::vector<std::string> names;
  for (const Key& key : keys_) names.push_back(key.name);
  return names;
}

void ApiKeys::add_line(std::string_view line) {
  const auto name = take_word(line);
  if (name.empty() || name.starts_with('#')) return;
  const auto key = take_word(line);
  if (key.empty())
    throw std::runtime_error(std::string("a line must be `") + kLineForm + "`; the key is missing");
  auto weight = take_word(line);
  auto role = take_word(line);
  if (role.empty() && weight == kAdmin) std::swap(weight, role);
  if (!take_word(line).empty() || (!role.empty() && role != kAdmin)) {
    throw std::runtime_error(std::string("a line must be `") + kLineForm +
                             "`; there is something else behind the weight");
  }
  add_key(std::string(name), key, weight.empty() ? 1 : parse_weight(weight), !role.empty());
}

void ApiKeys::add_key(std::string name, std::string_view key, double weight, bool admin) {
  if (key.empty()) throw std::runtime_error("a key may not be empty");
  if (!can_be_sent(key)) throw std::runtime_error("a key may hold visible ASCII characters alone");
  Key added{std::move(name), digest_of_key(key), {}};
  for (const Key& other : keys_) {
    if (other.name == added.name)
      throw std::runtime_error("the name `" + added.name + "` occurs twice; give each key its own");
    if (same_digest(other.digest, added.digest)) {
      throw std::runtime_error("`" + added.name + "` has the same key as `" + other.name +
                               "`; give each name a key of its own");
    }
  }
  const uint64_t number = keys_.size() + 1;
  added.identity.tenant = share_across_keys_ ? 0 : number;
  added.identity.client = number;
  added.identity.weight = weight;
  added.identity.admin = admin;
  added.identity.name = added.name;
  keys_.push_back(std::move(added));
}

Result<Identity> ApiKeys::identify(std::string_view authorization) const {
  const auto key = bearer_key(authorization);
  if (!key) {
    return tl::unexpected(
        unauthorized("this server needs an API key: send the header `Authorization: Bearer KEY`"));
  }
  const KeyDigest digest = digest_of_key(*key);
  const Key* found = nullptr;
  // All of them, whichever it is: the time tells nothing about its place either.
  for (const Key& candidate : keys_)
    if (same_digest(candidate.digest, digest)) found = &candidate;
  if (found == nullptr) {
    return tl::unexpected(unauthorized(
        "the API key in `Authorization` is none of this server's; ask its operator for one"));
  }
  return found->identity;
}

}  // namespace espalier::server
