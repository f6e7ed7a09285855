#include "hub/hub_client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "hub/hub_error.h"
#include "hub/hub_refusal.h"
#include "hub/retries.h"

namespace espalier::hub {
namespace {

using nlohmann::json;

constexpr int kRedirectsMax = 8;
constexpr size_t kListingBytesMax = size_t{32} << 20U;
constexpr size_t kListedFilesMax = 100'000;
constexpr std::chrono::seconds kHurriedConnect{3};

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// With HF_HUB_DOWNLOAD_TIMEOUT, in seconds, as in Hugging Face's tools.
HttpPatience patience(const Lookup& lookup, bool in_a_hurry) {
  HttpPatience patience;
  if (in_a_hurry) patience.connect = kHurriedConnect;
  const char* value = lookup("HF_HUB_DOWNLOAD_TIMEOUT");
  const long seconds = value == nullptr ? 0 : std::strtol(value, nullptr, 10);
  if (seconds >= 1 && seconds <= 3600) patience.silence = std::chrono::seconds(seconds);
  return patience;
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Without the mark of weak ones and the quotes.
std::string bare_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

bool is_file_name(const std::string& etag) {
  constexpr size_t kBytesMax = 200;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !etag.empty() && etag.size() <= kBytesMax && etag.front() != '.' &&
         std::ranges::all_of(etag, plain) && !etag.ends_with(".incomplete");
}

Listing parse_listing(const std::string& text, const std::string& from) {
  const json root = json::parse(text, nullptr, false);
  Listing listing;
  const auto fail = [&](const std::string& what) {
    throw HubError(from + " is no hub as Hugging Face's: its answer to /api/models/… " + what);
  };
  if (!root.is_object()) fail("is no JSON object");
  const auto sha = root.find("sha");
  if (sha == root.end() || !sha->is_string() || !is_commit(sha->get_ref<const std::string&>()))
    fail("has no `sha` that is a commit");
  listing.commit = sha->get<std::string>();
  const auto siblings = root.find("siblings");
  if (siblings == root.end() || !siblings->is_array() || siblings->size() > kListedFilesMax)
    fail("has no array `siblings`");
  for (const json& sibling : *siblings) {
    const auto name = sibling.is_object() ? sibling.find("rfilename") : sibling.end();
    if (!sibling.is_object() || name == sibling.end() || !name->is_string())
      fail("has a sibling without `rfilename`");
    // Files with other names are not among those that are needed.
    if (is_safe_path(name->get_ref<const std::string&>()))
      listing.files.push_back(name->get<std::string>());
  }
  return listing;
}

/// "bytes 5-9/10": where it begins and, if it says, the size of all.
std::optional<ContentStart> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos ||
      slash == std::string_view::npos || dash > slash)
    return std::nullopt;
  const auto begin = whole_number(text.substr(kUnit.size(), dash - kUnit.size()));
  if (!begin) return std::nullopt;
  return ContentStart{*begin, whole_number(text.substr(slash + 1)), false};
}

}  // namespace

HubClient::HubClient(const Environment& environment, const FetchEvents& events, bool in_a_hurry)
    : environment_(environment),
      http_(environment.lookup, patience(environment.lookup, in_a_hurry), events.cancelled) {}

Url HubClient::file_url(const ModelReference& model, const std::string& commit,
                        const std::string& file) const {
  Url url = environment_.endpoint;
  url.target += "/" + model.repository + "/resolve/" + commit + "/" + percent_encoded(file, true);
  return url;
}

/// One request, with the token if it goes to the hub itself.
HttpHead HubClient::ask(const std::string& method, const Url& url, std::vector<Header> headers,
                        const HttpClient::Callbacks& callbacks) {
  if (!environment_.token.empty() && url.same_origin(environment_.endpoint))
    headers.emplace_back("Authorization", "Bearer " + environment_.token);
  return http_.send({method, url, std::move(headers)}, callbacks);
}

Listing HubClient::listing(const ModelReference& model) {
  Url url = environment_.endpoint;
  url.target +=
      "/api/models/" + model.repository + "/revision/" + percent_encoded(model.revision, false);
  std::string text;
  const auto append = [&](std::string_view bytes) {
    if (bytes.size() > kListingBytesMax - text.size())
      throw HubError(url.origin() + " lists more files of " + model.repository +
                     " than any model has");
    text.append(bytes);
    return true;
  };
  for (int hop = 0; hop < kRedirectsMax; ++hop) {
    text.clear();
    const HttpHead head =
        ask("GET", url, {},
            {.head = [](const HttpHead& answer) { return answer.status == 200; }, .body = append});
    if (head.status == 200) return parse_listing(text, url.origin());
    if (!is_redirect(head.status) || head.header("location").empty())
      throw_refusal(head, model, "", environment_);
    url = resolve_redirect(url, head.header("location"));
  }
  throw HubError(url.origin() + " redirects without end");
}

FileMetadata HubClient::metadata(const ModelReference& model, const std::string& commit,
                                 const std::string& file) {
  Url url = file_url(model, commit, file);
  std::string linked_etag, etag;
  FileMetadata metadata;
  for (int hop = 0; hop < kRedirectsMax; ++hop) {
    const HttpHead head = ask("HEAD", url, {}, {});
    const bool redirected = is_redirect(head.status) && !head.header("location").empty();
    if (!redirected && head.status != 200) throw_refusal(head, model, file, environment_);

    const std::string answered_commit = head.header("x-repo-commit");
    if (!answered_commit.empty() && answered_commit != commit) {
      throw HubError(url.origin() + " answers with commit " + answered_commit.substr(0, 40) +
                     " of " + model.repository + " when asked for " + commit);
    }
    if (const auto value = head.header("x-linked-etag"); !value.empty())
      linked_etag = bare_etag(value);
    if (const auto value = head.header("etag"); !value.empty()) etag = bare_etag(value);
    if (const auto size = whole_number(head.header("x-linked-size"))) {
      metadata.size = size;
    } else if (!redirected && !metadata.size) {
      metadata.size = whole_number(head.header("content-length"));
    }
    if (redirected) {
      const Url next = resolve_redirect(url, head.header("location"));
      // Another host knows of the content, but not of the repository.
      if (next.same_origin(url)) {
        url = next;
        continue;
      }
    }
    metadata.etag = linked_etag.empty() ? etag : linked_etag;
    if (!is_file_name(metadata.etag))
      throw HubError(url.origin() + " gives no ETag for " + file + " that could name it");
    return metadata;
  }
  throw HubError(url.origin() + " redirects without end");
}

void HubClient::content(const ModelReference& model, const std::string& commit,
                        const std::string& file, uint64_t offset,
                        const std::function<void(const ContentStart&)>& start,
                        const std::function<bool(std::string_view)>& bytes) {
  Url url = file_url(model, commit, file);
  std::vector<Header> headers;
  if (offset > 0) headers.emplace_back("Range", "bytes=" + std::to_string(offset) + "-");

  for (int hop = 0; hop < kRedirectsMax; ++hop) {
    const auto begin = [&](const HttpHead& head) {
      if (head.status == 200) {
        start({0, whole_number(head.header("content-length")), false});
        return true;
      }
      if (head.status == 206) {
        const auto range = parse_content_range(head.header("content-range"));
        if (!range || range->offset != offset)
          throw NoAnswer(url.origin() + " sends another part of " + file + " than was asked for");
        start(*range);
        return true;
      }
      if (head.status == 416 && offset > 0) start({offset, std::nullopt, true});
      return false;
    };
    const HttpHead head = ask("GET", url, headers, {.head = begin, .body = bytes});
    if (head.status == 200 || head.status == 206 || (head.status == 416 && offset > 0)) return;
    if (is_redirect(head.status) && !head.header("location").empty()) {
      url = resolve_redirect(url, head.header("location"));
      continue;
    }
    if (url.same_origin(environment_.endpoint)) throw_refusal(head, model, file, environment_);
    // A signed address has expired, most likely; the next attempt gets a new one.
    throw NoAnswer(url.origin() + ", where the hub redirects to, answers " +
                       std::to_string(head.status) + " to a request for " + file,
                   retry_after(head.header("retry-after"), std::chrono::system_clock::now()));
  }
  throw HubError(url.origin() + " redirects without end");
}

}  // namespace espalier::hub
