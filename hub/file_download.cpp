#include "hub/file_download.h"

#include <algorithm>

#include "hub/content_hash.h"
#include "hub/file_lock.h"
#include "hub/hub_error.h"
#include "hub/partial_file.h"
#include "hub/retries.h"

namespace espalier::hub {
namespace {

constexpr size_t kAttemptsMax = 6;  // in a row that bring nothing

std::string bytes_text(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

/// One way from what is there to all that was announced.
class Transfer {
 public:
  Transfer(PartialFile& partial, const WantedFile& file, const FetchEvents& events)
      : partial_(partial), file_(file), events_(events), hash_(file.etag, file.size) {
    if (partial_.size() > file_.size) partial_.clear();
    resumed_ = partial_.size();
    partial_.read([&](std::string_view piece) {
      if (events_.cancelled()) throw Cancelled();
      hash_.add(piece);
    });
    most_ = resumed_;
  }

  void run(HubClient& client, const ModelReference& model, const std::string& commit) {
    Retries retries(kAttemptsMax, events_);
    report();
    while (partial_.size() < file_.size) {
      try {
        client.content(
            model, commit, file_.path, partial_.size(),
            [&](const ContentStart& start) { begin(start); },
            [&](std::string_view bytes) { return take(bytes); });
        if (partial_.size() < file_.size)
          throw NoAnswer("the hub ended " + file_.path + " after " + bytes_text(partial_.size()) +
                         " of " + std::to_string(file_.size));
      } catch (const NoAnswer& failure) {
        if (partial_.size() > most_) retries.progressed();
        most_ = std::max(most_, partial_.size());
        retries.wait(failure);
      }
    }
  }

  bool is_right() { return hash_.matches(); }
  uint64_t resumed() const { return resumed_; }

 private:
  void begin(const ContentStart& start) {
    if (start.size && *start.size != file_.size) {
      throw HubError("the hub announced " + file_.path + " with " + bytes_text(file_.size) +
                     ", and sends one of " + bytes_text(*start.size) +
                     "; try again later, or another HF_ENDPOINT");
    }
    // 200 for an answer to a request for a part: the server knows of no parts.
    if (start.offset != partial_.size() || start.none_left) {
      partial_.clear();
      hash_ = ContentHash(file_.etag, file_.size);
      resumed_ = 0;
    }
  }

  bool take(std::string_view bytes) {
    if (bytes.size() > file_.size - partial_.size()) {
      throw HubError("the hub announced " + file_.path + " with " + bytes_text(file_.size) +
                     ", and sends more; try again later, or another HF_ENDPOINT");
    }
    partial_.append(bytes);
    hash_.add(bytes);
    report();
    return true;
  }

  void report() {
    FileProgress progress;
    progress.file = file_.path;
    progress.done = partial_.size();
    progress.resumed = resumed_;
    progress.total = file_.size;
    events_.progress(progress);
  }

  PartialFile& partial_;
  const WantedFile& file_;
  const FetchEvents& events_;
  ContentHash hash_;
  uint64_t resumed_ = 0;  // bytes from earlier attempts
  uint64_t most_ = 0;     // bytes that there have ever been
};

}  // namespace

bool has_blob(const CacheFolder& cache, const WantedFile& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(cache.blob(file.etag), error);
  return !error && size == file.size;
}

void download_blob(HubClient& client, const CacheFolder& cache, const ModelReference& model,
                   const std::string& commit, const WantedFile& file, const FetchEvents& events) {
  if (has_blob(cache, file)) return;
  const FileLock lock(cache.lock(file.etag), file.path, events);
  if (has_blob(cache, file)) return;

  for (bool again = true;; again = false) {
    PartialFile partial(cache.partial(file.etag));
    Transfer transfer(partial, file, events);
    transfer.run(client, model, commit);
    if (transfer.is_right()) {
      partial.move_to(cache.blob(file.etag));
      FileProgress progress;
      progress.file = file.path;
      progress.done = progress.total = file.size;
      progress.resumed = transfer.resumed();
      progress.complete = true;
      events.progress(progress);
      return;
    }
    partial.clear();
    const std::string what =
        "the hash of " + file.path + " is not " + file.etag + ", which the hub announced";
    if (!again)
      throw HubError(what +
                     "; what came has been thrown away: try again later, or another "
                     "HF_ENDPOINT");
    events.warning(what + "; fetching it once more from its beginning");
  }
}

}  // namespace espalier::hub
