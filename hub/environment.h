// The environment variables that Hugging Face's tools read, with the same meaning.
//
//   HF_ENDPOINT                       the hub; https://huggingface.co
//   HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub,
//   ~/.cache/huggingface/hub          the cache folder: the first that is set
//   HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the file HF_TOKEN_PATH, the file HF_HOME/token
//   HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE   1, ON, YES or TRUE: no requests
//   HF_HUB_DOWNLOAD_TIMEOUT           seconds that a hub may be silent; 20
//   HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY   in lower case, too
//
// Thread contract: none needed.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hub/url.h"

namespace espalier::hub {

/// Looks up an environment variable; null if unset.
using Lookup = std::function<const char*(const char* name)>;

struct Environment {
  Url endpoint;                 // its target is a prefix without a slash at its end, mostly empty
  std::filesystem::path cache;  // the folder that holds models--ORG--NAME
  std::string token;            // empty: none
  bool offline = false;
  Lookup lookup;  // for the proxies, which depend on the host
};

/// Reads the token's file if there is one. Throws HubError for an HF_ENDPOINT that is no http or
/// https URL, for a token that no header can hold, and if there is no home folder to have a cache
/// in.
Environment read_environment(Lookup lookup);

struct Proxy {
  std::string host;
  int port = 0;
  std::string user, password;  // empty: none
};

/// The proxy that requests to `url` go through; none if NO_PROXY names its host. Throws HubError
/// for one that is not http://[USER:PASSWORD@]HOST[:PORT].
std::optional<Proxy> proxy_for(const Url& url, const Lookup& lookup);

}  // namespace espalier::hub
