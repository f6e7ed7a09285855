// The name of a model on a hub: ORG/NAME, of a revision, and one of its GGUF files.
//
//   Qwen/Qwen3-Embedding-0.6B              the newest state of the branch `main`
//   Qwen/Qwen3-Embedding-0.6B@97b0c61      a branch, a tag or a commit
//   Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0    the GGUF file of that quantisation, or of that name
//
// Thread contract: none needed.
#pragma once

#include <string>
#include <string_view>

namespace espalier::hub {

struct ModelReference {
  std::string repository;         // "ORG/NAME"
  std::string revision = "main";  // branch, tag or commit
  std::string gguf;               // quantisation or file name; empty: none chosen

  /// Without what is at its default.
  std::string text() const;
};

/// Whether `text` is meant as ORG/NAME rather than as a path: one slash, and nothing in front of it
/// that only paths begin with.
bool looks_like_reference(std::string_view text);

/// Throws HubError that quotes `text` and says what is wrong with it.
ModelReference parse_reference(std::string_view text);

/// A revision that will never mean anything else: the 40 hexadecimal digits of a commit.
bool is_commit(std::string_view revision);

/// A path that stays inside its folder: names separated by "/", none of them "." or "..", without
/// control characters and backslashes. What hubs list must be one.
bool is_safe_path(std::string_view path);

}  // namespace espalier::hub
