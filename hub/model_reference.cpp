#include "hub/model_reference.h"

#include <algorithm>
#include <cstddef>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

constexpr size_t kNameBytesMax = 96;  // of ORG and of NAME, as on Hugging Face
constexpr size_t kRevisionBytesMax = 200;
constexpr size_t kPathBytesMax = 1024;
constexpr size_t kPathPartBytesMax = 240;  // file systems allow 255; suffixes of ours come on top

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool has_only(std::string_view text, std::string_view more) {
  return std::ranges::all_of(
      text, [&](char c) { return is_alphanumeric(c) || more.find(c) != std::string_view::npos; });
}

/// Hugging Face's rules for both parts of a repository's name; "--" separates them in the cache.
bool is_repository_part(std::string_view part) {
  const auto at_border = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && part.size() <= kNameBytesMax && has_only(part, "-_.") &&
         !at_border(part.front()) && !at_border(part.back()) &&
         part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

bool is_revision(std::string_view revision) {
  return revision.size() <= kRevisionBytesMax && has_only(revision, "-_./+") &&
         revision.front() != '-' && is_safe_path(revision);
}

bool is_repository(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && is_repository_part(text.substr(0, slash)) &&
         is_repository_part(text.substr(slash + 1));
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw HubError("'" + std::string(text.substr(0, kPathBytesMax)) +
                 "' is not the name of a model: " + why +
                 " (expected ORG/NAME, ORG/NAME@REVISION or ORG/NAME:QUANTISATION)");
}

}  // namespace

std::string ModelReference::text() const {
  return repository + (revision == "main" ? "" : "@" + revision) + (gguf.empty() ? "" : ":" + gguf);
}

bool is_commit(std::string_view revision) {
  return revision.size() == 40 && std::ranges::all_of(revision, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kPathBytesMax) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kPathPartBytesMax)
      return false;
    const bool plain = std::ranges::all_of(part, [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\';
    });
    if (!plain) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool looks_like_reference(std::string_view text) {
  return is_repository(text.substr(0, text.find_first_of("@:")));
}

ModelReference parse_reference(std::string_view text) {
  ModelReference reference;
  const size_t colon = text.find(':');
  std::string_view rest = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    reference.gguf = text.substr(colon + 1);
    if (!is_safe_path(reference.gguf)) refuse(text, "no file can follow its `:`");
  }
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    reference.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (reference.revision.empty() || !is_revision(reference.revision))
      refuse(text, "what follows its `@` is no branch, tag or commit");
  }
  if (!is_repository(rest)) {
    refuse(text,
           "ORG and NAME consist of letters, digits, `-`, `_` and `.`, without `--` and `..`, and "
           "neither begin nor end with `-` or `.`");
  }
  reference.repository = rest;
  return reference;
}

}  // namespace espalier::hub
