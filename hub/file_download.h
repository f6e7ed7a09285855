// One file from the hub into the cache's blobs.
//
// Thread contract: one thread.
#pragma once

#include <string>

#include "hub/cache_folder.h"
#include "hub/fetch_events.h"
#include "hub/hub_client.h"
#include "hub/model_reference.h"

namespace espalier::hub {

struct WantedFile {
  std::string path;  // in the repository
  std::string etag;
  uint64_t size = 0;
};

/// Whether the cache has a blob of that name and size.
bool has_blob(const CacheFolder& cache, const WantedFile& file);

/// Fetches it, from where an earlier attempt ended, until it has the size and the hash that the hub
/// announced. Takes turns with other processes, and finds what they have fetched. Throws HubError,
/// NoAnswer, Cancelled; there is never a blob that is not whole.
void download_blob(HubClient& client, const CacheFolder& cache, const ModelReference& model,
                   const std::string& commit, const WantedFile& file, const FetchEvents& events);

}  // namespace espalier::hub
