#include "hub/hub_refusal.h"

#include <algorithm>
#include <chrono>

#include "hub/hub_error.h"
#include "hub/retries.h"

namespace espalier::hub {
namespace {

constexpr size_t kQuotedBytesMax = 300;

/// What the hub says itself, fit for a terminal.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, kQuotedBytesMax)) {
    if (c >= 0x20 && c < 0x7f) out += c;
  }
  return out.empty() ? "" : " (the hub says: " + out + ")";
}

std::string gated(const ModelReference& model, const Environment& environment) {
  const std::string page = environment.endpoint.text() + "/" + model.repository;
  const std::string how = environment.token.empty()
                              ? "then set HF_TOKEN to a token of your account (" +
                                    environment.endpoint.text() + "/settings/tokens)"
                              : "the token that is set has no access to it";
  return model.repository + " is gated: accept its licence at " + page + "; " + how;
}

std::string missing(const ModelReference& model, const Environment& environment) {
  return environment.endpoint.text() + " has no model " + model.repository +
         (environment.token.empty()
              ? ", or it is private or gated: check the name, or set HF_TOKEN to a token that "
                "may read it"
              : ", or the token that is set may not read it: check the name, and the token's "
                "rights");
}

/// Whether the same request may be answered in a while.
bool may_pass(int status) {
  return status == 408 || status == 429 || (status >= 500 && status <= 599);
}

}  // namespace

void throw_refusal(const HttpHead& answer, const ModelReference& model, const std::string& file,
                   const Environment& environment) {
  const std::string code = answer.header("x-error-code");
  const std::string says = quoted(answer.header("x-error-message"));
  const int status = answer.status;
  const std::string origin = environment.endpoint.origin();

  if (may_pass(status)) {
    const std::string meaning = status == 429 ? " (too many requests)" : "";
    throw NoAnswer(origin + " answers " + std::to_string(status) + meaning + says,
                   retry_after(answer.header("retry-after"), std::chrono::system_clock::now()));
  }
  if (code == "GatedRepo") throw HubError(gated(model, environment) + says);
  if (code == "RevisionNotFound")
    throw HubError(model.repository + " has no revision '" + model.revision + "'" + says);
  if (code == "EntryNotFound" || (status == 404 && !file.empty()))
    throw HubError(model.text() + " has no file " + file + says);
  if (code == "RepoNotFound" || status == 404 || (status == 401 && environment.token.empty())) {
    // An unknown revision has a code on Hugging Face; mirrors may send none.
    const std::string revision = code.empty() && status == 404 && model.revision != "main"
                                     ? ", or none of the revision '" + model.revision + "'"
                                     : "";
    throw HubError(missing(model, environment) + revision + says);
  }
  if (status == 401)
    throw HubError(origin + " does not know the token: set HF_TOKEN to a valid one, or unset it" +
                   says);
  if (status == 403) {
    throw HubError(
        origin + " forbids to read " + model.repository +
        ": if it is gated, accept its licence at " + environment.endpoint.text() + "/" +
        model.repository +
        (environment.token.empty() ? ", and set HF_TOKEN" : "; check the token's rights") + says);
  }
  throw HubError(origin + " answers " + std::to_string(status) + " to a request for " +
                 (file.empty() ? model.text() : model.text() + "'s " + file) + says);
}

}  // namespace espalier::hub
