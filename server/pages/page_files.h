// The files of the web page, as the build put them into the binary (embed_files.cmake).
//
// Thread contract: constants.
#pragma once

#include <span>
#include <string_view>

namespace espalier::server {

struct PageFile {
  std::string_view name;          // "style.css"
  std::string_view content_type;  // by the name's ending
  std::string_view etag;          // a digest of the content, in quotes, as HTTP writes it
  std::string_view content;
};

/// All of them, by name. They hold no data of the server's.
std::span<const PageFile> page_files();

}  // namespace espalier::server
