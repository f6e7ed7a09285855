#include "hub/fetch.h"

#include <algorithm>
#include <optional>

#include "hub/cache_folder.h"
#include "hub/file_download.h"
#include "hub/gguf_choice.h"
#include "hub/hub_client.h"
#include "hub/hub_error.h"
#include "hub/needed_files.h"
#include "hub/partial_file.h"
#include "hub/retries.h"
#include "hub/snapshot_check.h"

namespace espalier::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAttemptsMax = 5;
constexpr const char* kNoNetworkAdvice =
    "; if this machine reaches the hub otherwise, set HF_ENDPOINT or HTTPS_PROXY; "
    "`espalier download` on another machine fills a folder that can be copied to HF_HUB_CACHE";

std::string list(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

class Fetch {
 public:
  Fetch(const ModelReference& model, const Environment& environment, const FetchEvents& events)
      : model_(model),
        environment_(environment),
        events_(events),
        cache_(environment.cache, model.repository),
        have_one_(have_complete()),
        client_(environment, events, have_one_) {}

  fs::path run() {
    if (environment_.offline) return from_cache("HF_HUB_OFFLINE is set");
    if (is_commit(model_.revision)) {
      const auto check = check_cached(model_.revision);
      if (check && check->missing.empty() && knows_its_modules(model_.revision))
        return check->model;
    }
    Retries retries(have_one_ ? 1 : kAttemptsMax, events_);
    try {
      const Listing listing = retries.run([&] { return client_.listing(model_); });
      return from_hub(listing);
    } catch (const NoAnswer& failure) {
      if (!have_one_) throw NoAnswer(failure.what() + std::string(kNoNetworkAdvice));
      events_.warning(std::string(failure.what()) + "; using " + model_.text() +
                      " as it is in the cache");
      return from_cache("");
    }
  }

 private:
  /// Of the snapshot of `commit`; none if there is no such folder.
  std::optional<SnapshotCheck> check_cached(const std::string& commit) const {
    std::error_code error;
    if (!fs::is_directory(cache_.snapshot(commit), error)) return std::nullopt;
    return check_snapshot(cache_.snapshot(commit), model_.gguf, model_.repository);
  }

  bool have_complete() const {
    const auto commit = cache_.commit_of(model_.revision);
    try {
      const auto check = commit ? check_cached(*commit) : std::nullopt;
      return check && check->missing.empty();
    } catch (const HubError&) {
      return false;
    }
  }

  /// Tools that load only what they need may have left modules.json out, without which a model
  /// pools otherwise. Whole repositories bring .gitattributes.
  bool knows_its_modules(const std::string& commit) const {
    return !model_.gguf.empty() || cache_.has(commit, kModules) || cache_.lacks(commit, kModules) ||
           cache_.has(commit, ".gitattributes");
  }

  fs::path from_cache(const std::string& why) const {
    const std::string prefix = why.empty() ? "" : why + ", and ";
    const auto commit = cache_.commit_of(model_.revision);
    const auto check = commit ? check_cached(*commit) : std::nullopt;
    if (!check) {
      throw HubError(prefix + model_.text() + " is not in the cache, or not wholly (" +
                     cache_.folder().string() + "); run `espalier download " + model_.text() +
                     "` with a network first");
    }
    if (!check->missing.empty()) {
      throw HubError(prefix + cache_.snapshot(*commit).string() + " lacks " + list(check->missing) +
                     "; run `espalier download " + model_.text() +
                     "` with a network to complete it");
    }
    return check->model;
  }

  fs::path from_hub(const Listing& listing) {
    const std::string& commit = listing.commit;
    fs::path model = cache_.snapshot(commit);
    if (reads_gguf(listing.files, model_.gguf)) {
      const std::string file = choose_gguf(listing.files, model_.gguf, model_.repository);
      bring(commit, {file});
      model /= file;
    } else {
      bring(commit, settings_files(listing.files, model_.repository));
      bring(commit,
            further_files(listing.files, modules(commit), shards(commit), model_.repository));
    }
    keep_what_is_known(listing);
    return model;
  }

  std::vector<Module> modules(const std::string& commit) const {
    if (!cache_.has(commit, kModules)) return {};
    const fs::path file = cache_.snapshot(commit) / kModules;
    return parse_modules(read_small_file(file), file.string());
  }

  std::vector<std::string> shards(const std::string& commit) const {
    if (!cache_.has(commit, kWeightIndex)) return {};
    const fs::path file = cache_.snapshot(commit) / kWeightIndex;
    return parse_shards(read_small_file(file), file.string());
  }

  /// Files into the snapshot that are not there yet.
  void bring(const std::string& commit, const std::vector<std::string>& paths) {
    std::vector<WantedFile> wanted;
    for (const auto& path : paths) {
      if (!cache_.has(commit, path)) wanted.push_back(ask_about(commit, path));
    }
    if (wanted.empty()) return;
    cache_.make_folders(commit);
    require_room(wanted);
    for (const WantedFile& file : wanted) {
      // On file systems without links a second file of the same content takes the blob again.
      download_blob(client_, cache_, model_, commit, file, events_);
      cache_.put(commit, file.path, file.etag);
    }
  }

  WantedFile ask_about(const std::string& commit, const std::string& path) {
    Retries retries(kAttemptsMax, events_);
    const FileMetadata metadata =
        retries.run([&] { return client_.metadata(model_, commit, path); });
    if (!metadata.size)
      throw HubError(environment_.endpoint.origin() + " does not say how large " + path + " is");
    return {path, metadata.etag, *metadata.size};
  }

  void require_room(const std::vector<WantedFile>& wanted) const {
    uint64_t bytes = 0;
    for (const WantedFile& file : wanted) {
      if (has_blob(cache_, file)) continue;
      std::error_code error;
      const auto there = fs::file_size(cache_.partial(file.etag), error);
      const uint64_t missing = file.size - (error ? 0 : std::min<uint64_t>(there, file.size));
      bytes = missing > UINT64_MAX - bytes ? UINT64_MAX : bytes + missing;
    }
    require_disk_space(cache_.folder(), bytes);
  }

  /// So that the model is found again without the hub. Only of complete ones: while a newer commit
  /// comes, the revision stays what it was.
  void keep_what_is_known(const Listing& listing) const {
    try {
      cache_.remember(model_.revision, listing.commit);
    } catch (const HubError& error) {
      events_.warning(std::string(error.what()) + "; the model is used all the same");
    }
    if (std::ranges::find(listing.files, kModules) == listing.files.end() &&
        !cache_.lacks(listing.commit, kModules))
      cache_.remember_lack(listing.commit, kModules);
  }

  const ModelReference& model_;
  const Environment& environment_;
  const FetchEvents& events_;
  CacheFolder cache_;
  bool have_one_;  // a complete snapshot of the revision, as it was last time
  HubClient client_;
};

}  // namespace

fs::path fetch(const ModelReference& model, const Environment& environment,
               const FetchEvents& events) {
  return Fetch(model, environment, events).run();
}

}  // namespace espalier::hub
