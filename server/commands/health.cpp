#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "hub/http_client.h"
#include "hub/hub_error.h"
#include "server/commands/commands.h"
#include "server/commands/health_url.h"

namespace espalier::commands {
namespace {

constexpr size_t kBodyBytesMax = 4096;  // a probe's answer has a few dozen

std::string late_message;  // what the alarm says; a signal handler may not make it up itself

extern "C" void say_late_and_end(int) {
  const ssize_t ignored = ::write(STDERR_FILENO, late_message.data(), late_message.size());
  static_cast<void>(ignored);
  ::_exit(EXIT_FAILURE);
}

/// Ends the process after `timeout`, wherever it hangs then: the lookup of a name, a handshake,
/// an answer that comes in drops.
void end_after(std::chrono::seconds timeout, const std::string& url) {
  late_message = fmt::format(
      "espalier: no answer from {} within {} s: the server hangs, or cannot be reached from here\n",
      url, timeout.count());
  struct sigaction action {};
  action.sa_handler = say_late_and_end;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_signal;
  sigemptyset(&alarm_signal);
  sigaddset(&alarm_signal, SIGALRM);
  ::sigprocmask(SIG_UNBLOCK, &alarm_signal, nullptr);  // a mask is inherited
  ::alarm(static_cast<unsigned>(timeout.count()));
}

struct Answer {
  int status = 0;
  std::string body;  // its beginning
};

/// Throws hub::NoAnswer.
Answer ask(const hub::Url& url, hub::Certificates certificates, std::chrono::seconds timeout) {
  const hub::HttpPatience patience{.connect = timeout, .silence = timeout};
  hub::HttpClient client([](const char*) { return nullptr; }, patience, [] { return false; },
                         certificates);
  Answer answer;
  hub::HttpClient::Callbacks callbacks;
  callbacks.body = [&](std::string_view bytes) {
    answer.body += bytes.substr(0, kBodyBytesMax - answer.body.size());
    return answer.body.size() < kBodyBytesMax;
  };
  answer.status = client.send({.method = "GET", .url = url, .headers = {}}, callbacks).status;
  return answer;
}

/// "loading", "draining", "ok"; "" if the answer is not one of our probes'.
std::string state_in(const std::string& body) {
  const auto root = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return "";
  const auto status = root.find("status");
  if (status == root.end() || !status->is_string()) return "";
  const auto& state = status->get_ref<const std::string&>();
  return state == "loading" || state == "draining" || state == "ok" ? state : "";
}

int fail(const std::string& message) {
  std::cerr << "espalier: " << message << '\n';
  return EXIT_FAILURE;
}

/// What to look at when nobody answers as a server of ours.
std::string advice(const Options& options) {
  if (!options.health_url.empty()) return "is the server running, and its address right?";
  return "is the server running? Its port is that of ESPALIER_PORT or --port, or for probes of "
         "ESPALIER_ADMIN_PORT or --admin-port, and with ESPALIER_TLS_CERT or --tls-cert it is "
         "asked by HTTPS: all as `serve` has them";
}

}  // namespace

int health(const Options& options) {
  const hub::Url url = health_url(options);
  const std::chrono::seconds timeout(options.health_timeout);
  end_after(timeout, url.text());
  // Its own server's certificate is made out to the name that clients use; and whoever could take
  // the port on this machine could also stop the server.
  const auto certificates =
      options.health_url.empty() ? hub::Certificates::kUnchecked : hub::Certificates::kChecked;
  Answer answer;
  try {
    answer = ask(url, certificates, timeout);
  } catch (const hub::NoAnswer& error) {
    return fail(fmt::format("{}; {}", error.what(), advice(options)));
  }
  const std::string state = state_in(answer.body);
  if (answer.status == 200) {
    std::cout << (options.health_live ? "live" : "ready") << ": " << url.text() << '\n';
    return EXIT_SUCCESS;
  }
  if (state == "loading")
    return fail("loading: the server is there, and loads its models (" + url.text() + ")");
  if (state == "draining")
    return fail("draining: the server finishes what it has accepted, and ends (" + url.text() +
                ")");
  return fail(fmt::format("{} answers {}, which is not what a server says that is ready; {}",
                          url.text(), answer.status, advice(options)));
}

}  // namespace espalier::commands
