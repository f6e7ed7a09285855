// The requests of Hugging Face's hub that fetching a model takes. Redirects are followed here, so
// that the token goes to the hub alone.
//
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/environment.h"
#include "hub/fetch_events.h"
#include "hub/http_client.h"
#include "hub/model_reference.h"

namespace espalier::hub {

/// A revision of a repository.
struct Listing {
  std::string commit;
  std::vector<std::string> files;  // safe paths
};

struct FileMetadata {
  std::string etag;  // a safe file name: the blob's in the cache
  std::optional<uint64_t> size;
};

/// How an answer to "the bytes from `offset` on" begins.
struct ContentStart {
  uint64_t offset = 0;           // of the first byte that comes: as asked, or 0
  std::optional<uint64_t> size;  // of the whole file, if it says
  bool none_left = false;        // there is nothing from the asked offset on (416)
};

class HubClient {
 public:
  /// Both must outlive this. In a hurry it waits less long for hosts that do not answer at all.
  HubClient(const Environment& environment, const FetchEvents& events, bool in_a_hurry);

  /// Each throws HubError for a refusal, NoAnswer if the same may work later.
  Listing listing(const ModelReference& model);
  FileMetadata metadata(const ModelReference& model, const std::string& commit,
                        const std::string& file);
  /// The file's bytes from `offset` on, to `bytes` as they come, which returns whether to go on.
  void content(const ModelReference& model, const std::string& commit, const std::string& file,
               uint64_t offset, const std::function<void(const ContentStart&)>& start,
               const std::function<bool(std::string_view)>& bytes);

 private:
  using Header = std::pair<std::string, std::string>;

  Url file_url(const ModelReference& model, const std::string& commit,
               const std::string& file) const;
  HttpHead ask(const std::string& method, const Url& url, std::vector<Header> headers,
               const HttpClient::Callbacks& callbacks);

  const Environment& environment_;
  HttpClient http_;
};

}  // namespace espalier::hub
