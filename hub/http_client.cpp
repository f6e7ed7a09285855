#include "hub/http_client.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <exception>
#include <optional>

#include "hub/hub_error.h"

namespace espalier::hub {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kCancelPeriod{200};  // how often `cancelled` is asked
constexpr size_t kReadBytes = size_t{64} << 10U;
/// What the library may read without handing over content: heads, chunk sizes, trailers.
constexpr size_t kFramingBytesMax = size_t{256} << 10U;
/// Slower than this, on average over some silences, is as good as silent.
constexpr size_t kBytesPerSecondMin = 1024;
constexpr int kSilencesOfRate = 3;

/// A write to a closed connection is an error, not the end of the process; OpenSSL cannot ask for
/// that by itself.
class BrokenPipeBlock {
 public:
  BrokenPipeBlock() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BrokenPipeBlock() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipeBlock(const BrokenPipeBlock&) = delete;
  BrokenPipeBlock& operator=(const BrokenPipeBlock&) = delete;

 private:
  sigset_t pipe_{};
  sigset_t before_{};
};

/// What the streams of all connections obey, and why the last one failed.
struct Watch {
  std::chrono::seconds silence_max{};
  std::function<bool()> cancelled;
  std::string failure;  // empty: none that the library does not know of
  bool was_cancelled = false;
  /// The answer's head as it came: the library decodes the percent signs of header values, which
  /// breaks signed addresses.
  std::string raw_head;
  bool reads_head = false;
  size_t framing_bytes = 0;  // since content was handed over last
  Clock::time_point window_start;
  size_t window_bytes = 0;

  void start() {
    failure.clear();
    was_cancelled = false;
    raw_head.clear();
    reads_head = true;
    framing_bytes = 0;
    window_start = Clock::now();
    window_bytes = 0;
  }

  bool fail(const std::string& why) {
    if (failure.empty()) failure = why;
    return false;
  }

  /// False if it all takes too long.
  bool in_time(Clock::time_point last_byte) {
    if (cancelled()) {
      was_cancelled = true;
      return false;
    }
    const auto now = Clock::now();
    if (now - last_byte > silence_max)
      return fail("sends nothing for " + std::to_string(silence_max.count()) + " s");
    const auto window = kSilencesOfRate * silence_max;
    if (now - window_start > window) {
      if (window_bytes < kBytesPerSecondMin * static_cast<size_t>(window.count()))
        return fail("sends less than 1 kB a second");
      window_start = now;
      window_bytes = 0;
    }
    return true;
  }
};

/// A connection that the library has made, read and written with our limits.
class WatchedStream final : public httplib::Stream {
 public:
  WatchedStream(socket_t socket, SSL* ssl, Watch& watch)
      : socket_(socket), ssl_(ssl), watch_(watch), buffer_(kReadBytes) {
    ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  }

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      const ssize_t received =
          transfer([&] { return receive(buffer_.data(), buffer_.size()); }, POLLIN);
      if (received <= 0) return received;
      watch_.window_bytes += static_cast<size_t>(received);
      begin_ = 0;
      end_ = static_cast<size_t>(received);
    }
    const size_t copied = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, copied, to);
    begin_ += copied;
    watch_.framing_bytes += copied;
    if (watch_.reads_head) watch_.raw_head.append(to, copied);
    if (watch_.framing_bytes > kFramingBytesMax) {
      watch_.fail("sends a head without an end");
      return -1;
    }
    return static_cast<ssize_t>(copied);
  }

  ssize_t write(const char* from, size_t size) override {
    return transfer([&] { return send(from, size); }, POLLOUT);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  socket_t socket() const override { return socket_; }

 private:
  static constexpr ssize_t kWouldBlock = -2;

  static void nowhere(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }

  /// Repeats `attempt` until it does something; bytes, 0 at the end, or -1.
  template <typename Attempt>
  ssize_t transfer(const Attempt& attempt, short events) {
    const auto start = Clock::now();
    while (true) {
      wanted_events_ = events;
      const ssize_t done = attempt();
      if (done != kWouldBlock) return watch_.cancelled() ? cancel() : done;
      pollfd entry{socket_, wanted_events_, 0};
      ::poll(&entry, 1, static_cast<int>(kCancelPeriod.count()));
      if (!watch_.in_time(start)) return -1;
    }
  }

  ssize_t cancel() {
    watch_.was_cancelled = true;
    return -1;
  }

  ssize_t receive(char* to, size_t size) {
    if (ssl_ == nullptr) return plain(::recv(socket_, to, size, 0));
    ERR_clear_error();
    return encrypted(SSL_read(ssl_, to, static_cast<int>(size)));
  }

  ssize_t send(const char* from, size_t size) {
    if (ssl_ == nullptr) return plain(::send(socket_, from, size, MSG_NOSIGNAL));
    ERR_clear_error();
    return encrypted(SSL_write(ssl_, from, static_cast<int>(std::min(size, kReadBytes))));
  }

  static ssize_t plain(ssize_t done) {
    const bool again = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return done < 0 && again ? kWouldBlock : done;
  }

  ssize_t encrypted(int done) {
    if (done > 0) return done;
    switch (SSL_get_error(ssl_, done)) {
      case SSL_ERROR_WANT_READ:
        wanted_events_ = POLLIN;
        return kWouldBlock;
      case SSL_ERROR_WANT_WRITE:
        wanted_events_ = POLLOUT;
        return kWouldBlock;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      default:
        return -1;
    }
  }

  socket_t socket_;
  SSL* ssl_;
  Watch& watch_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  short wanted_events_ = 0;
};

/// The library's client with our stream below it.
template <typename Library>
class WatchedClient final : public Library {
 public:
  WatchedClient(const std::string& host, int port, Watch& watch)
      : Library(host, port), watch_(watch) {}

 private:
  bool process_socket(const httplib::ClientImpl::Socket& socket,
                      std::function<bool(httplib::Stream&)> use) override {
    WatchedStream stream(socket.sock, socket.ssl, watch_);
    return use(stream);
  }

  Watch& watch_;
};

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// The library has checked the head; this takes its header lines as they are. Of interim answers
/// (100) nothing is left.
HttpHead head_of(std::string_view raw, int status) {
  HttpHead head;
  head.status = status;
  while (!raw.empty()) {
    const size_t end = std::min(raw.find('\n'), raw.size());
    const std::string_view line = raw.substr(0, end);
    raw.remove_prefix(std::min(end + 1, raw.size()));
    const size_t colon = line.find(':');
    if (line.starts_with("HTTP/")) {
      head.headers.clear();
    } else if (colon != std::string_view::npos) {
      head.headers[lower_case(std::string(line.substr(0, colon)))] =
          trimmed(line.substr(colon + 1));
    }
  }
  return head;
}

[[noreturn]] void give_up(const std::string& origin, httplib::Error error, const Watch& watch,
                          bool through_proxy) {
  if (watch.was_cancelled) throw Cancelled();
  if (!watch.failure.empty()) throw NoAnswer(origin + " " + watch.failure);
  const std::string proxy = through_proxy ? " through the proxy" : "";
  switch (error) {
    case httplib::Error::Connection:
    case httplib::Error::ConnectionTimeout:
    case httplib::Error::BindIPAddress:
      throw NoAnswer("no connection to " + origin + proxy);
    case httplib::Error::SSLConnection:
      throw NoAnswer(origin + proxy + " does not speak TLS as it should");
    case httplib::Error::SSLLoadingCerts:
      throw NoAnswer("the certificates to trust cannot be read: see SSL_CERT_FILE", {}, false);
    case httplib::Error::SSLServerVerification:
      throw NoAnswer("the certificate of " + origin +
                         " is not trusted, or is that of another host; if it should be trusted, "
                         "name its authority's certificate in SSL_CERT_FILE",
                     {}, false);
    default:
      throw NoAnswer("the connection to " + origin + " broke");
  }
}

}  // namespace

std::string HttpHead::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? "" : found->second;
}

struct HttpClient::Connections {
  Lookup lookup;
  Watch watch;
  struct Connection {
    std::unique_ptr<httplib::ClientImpl> client;
    bool through_proxy = false;
  };
  std::map<std::string, Connection> by_origin;
  std::chrono::seconds connect_max{};
  Certificates certificates = Certificates::kChecked;

  Connection& to(const Url& url) {
    Connection& connection = by_origin[url.origin()];
    if (!connection.client) connection = connect(url);
    return connection;
  }

  Connection connect(const Url& url) {
    Connection made;
    if (url.https) {
      auto client = std::make_unique<WatchedClient<httplib::SSLClient>>(url.host, url.port, watch);
      if (client->ssl_context() != nullptr)
        SSL_CTX_set_min_proto_version(client->ssl_context(), TLS1_2_VERSION);
      client->enable_server_certificate_verification(certificates == Certificates::kChecked);
      made.client = std::move(client);
    } else {
      made.client = std::make_unique<WatchedClient<httplib::ClientImpl>>(url.host, url.port, watch);
    }
    httplib::ClientImpl& client = *made.client;
    client.set_connection_timeout(connect_max);
    client.set_read_timeout(watch.silence_max);
    client.set_write_timeout(watch.silence_max);
    client.set_keep_alive(true);
    client.set_follow_location(false);
    client.set_url_encode(false);  // the target goes out byte for byte
    client.set_decompress(false);
    if (const auto proxy = proxy_for(url, lookup)) {
      made.through_proxy = true;
      client.set_proxy(proxy->host, proxy->port);
      if (!proxy->user.empty()) client.set_proxy_basic_auth(proxy->user, proxy->password);
    }
    return made;
  }
};

HttpClient::HttpClient(Lookup lookup, const HttpPatience& patience, std::function<bool()> cancelled,
                       Certificates certificates)
    : connections_(std::make_unique<Connections>()) {
  connections_->lookup = std::move(lookup);
  connections_->connect_max = patience.connect;
  connections_->watch.silence_max = patience.silence;
  connections_->watch.cancelled = std::move(cancelled);
  connections_->certificates = certificates;
}

HttpClient::~HttpClient() {
  const BrokenPipeBlock block;
  connections_.reset();
}

HttpHead HttpClient::send(const HttpRequest& request, const Callbacks& callbacks) {
  const BrokenPipeBlock block;
  Watch& watch = connections_->watch;
  if (watch.cancelled()) throw Cancelled();
  auto& connection = connections_->to(request.url);
  watch.start();

  httplib::Request library_request;
  library_request.method = request.method;
  library_request.path = request.url.target;
  library_request.headers.emplace("User-Agent", "espalier/" ESPALIER_VERSION);
  // A compressed answer has another length than the file.
  library_request.headers.emplace("Accept-Encoding", "identity");
  for (const auto& [name, value] : request.headers) library_request.headers.emplace(name, value);

  std::optional<HttpHead> head;
  bool stopped = false;
  std::exception_ptr thrown;
  // The library is not to be left by an exception.
  const auto go_on = [&](const auto& ask) {
    try {
      stopped = !ask();
    } catch (...) {
      thrown = std::current_exception();
      stopped = true;
    }
    return !stopped;
  };
  library_request.response_handler = [&](const httplib::Response& response) {
    watch.reads_head = false;
    head = head_of(watch.raw_head, response.status);
    return go_on([&] { return callbacks.head(*head); });
  };
  library_request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
    watch.framing_bytes = 0;
    return go_on([&] { return callbacks.body({data, size}); });
  };

  httplib::Response response;
  auto error = httplib::Error::Success;
  const bool sent = connection.client->send(library_request, response, error);
  const bool through_proxy = connection.through_proxy;
  // What is left of an answer must not be read as the beginning of the next one.
  if (!sent || stopped) connections_->by_origin.erase(request.url.origin());
  if (thrown) std::rethrow_exception(thrown);
  if (stopped) return *head;
  if (!sent) give_up(request.url.origin(), error, watch, through_proxy);
  // The library asks about answers to HEAD, and a proxy's own, nobody.
  if (!head) {
    head = head_of(watch.raw_head, response.status);
    go_on([&] { return callbacks.head(*head); });
    if (thrown) std::rethrow_exception(thrown);
  }
  return *head;
}

}  // namespace espalier::hub
