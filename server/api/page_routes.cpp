#include "server/api/page_routes.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "server/api/route_paths.h"
#include "server/error_response.h"
#include "server/pages/page_files.h"

namespace espalier::server {
namespace {

/// Scripts and styles from this server alone, none written into the markup; requests to nobody
/// else; pictures of the page's own making (blob:); no frame around it, and no string becomes
/// markup.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

const PageFile* find_file(std::span<const PageFile> files, std::string_view name) {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const PageFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

/// Whether If-None-Match names `etag`. It may list several, with W/ before each; ours are digests,
/// so that none occurs within another.
bool names_etag(const std::string& if_none_match, std::string_view etag) {
  return if_none_match == "*" || if_none_match.find(etag) != std::string::npos;
}

/// `file` may be null: 404.
HttpResponse file_response(const HttpRequest& request, const PageFile* file) {
  if (file == nullptr) {
    ApiError error;
    error.kind = ErrorKind::kNotFound;
    error.message = "there is nothing at this path";
    return error_response(error);
  }
  HttpResponse response;
  response.content_type = file->content_type;
  response.headers = {{"Content-Security-Policy", kContentSecurityPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      // Asked for anew each time, so that an upgraded server shows its own page.
                      {"Cache-Control", "no-cache"},
                      {"ETag", std::string(file->etag)}};
  const std::string* const known = request.fields.find("if-none-match");
  if (known != nullptr && names_etag(*known, file->etag)) {
    response.status = 304;
  } else {
    response.body = file->content;
  }
  return response;
}

}  // namespace

std::vector<Route> page_routes() {
  const auto page = [](const char* path, const char* name) {
    return Route{"GET", path, [file = find_file(page_files(), name)](const HttpRequest& request) {
                   return file_response(request, file);
                 }};
  };
  const auto file = [](const HttpRequest& request) {
    const auto name_at = std::string_view(kPageFilesPath).size() - 1;  // "*"
    const auto name = std::string_view(request.path).substr(name_at);
    return file_response(request, find_file(page_files(), name));
  };
  return {page(kPagePath, "index.html"), page(kDocsPath, "docs.html"),
          Route{"GET", kPageFilesPath, file}};
}

Route openapi_route() {
  return {"GET", kOpenApiPath, [](const HttpRequest& request) {
            return file_response(request, find_file(openapi_files(), "openapi.json"));
          }};
}

}  // namespace espalier::server
