// Files that the build put into the binary (embed_files.cmake): the web page's, and the API's
// description.
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

/// The web page's, by name. They hold no data of the server's.
std::span<const PageFile> page_files();
/// openapi.json alone; neither does it.
std::span<const PageFile> openapi_files();

}  // namespace espalier::server
