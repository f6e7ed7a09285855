#include "server/http/http_codec.h"

#include <httplib.h>

#include <string>
#include <string_view>
#include <utility>

namespace espalier::server {
namespace {

constexpr int kNoContent = 204;
constexpr int kNotModified = 304;
/// Answers that are no longer go out at once, head and body. Were they two sends, a server that is
/// killed could leave a head without its body behind, which no proxy can make good any more.
constexpr size_t kSentAtOnce = size_t{64} << 10U;

/// The library decodes the body.
bool needs_decoding(const Visit& visit) {
  return visit.reads_body() && !visit.head.content_encoding.empty();
}

/// The library hands its request to our handlers, but nothing of ours: they run on the thread that
/// entered it, where this is set.
thread_local Visit* current_visit = nullptr;

class VisitScope {
 public:
  explicit VisitScope(Visit& visit) { current_visit = &visit; }
  ~VisitScope() { current_visit = nullptr; }
  VisitScope(const VisitScope&) = delete;
  VisitScope& operator=(const VisitScope&) = delete;
};

/// What the library reads: a head that we wrote, with nothing but what it must know for the body,
/// and that body if it is to be decoded. So none of what it does with other fields is ever reached
/// (ranges, multipart forms, compressed answers, percent-decoded values, heads without end).
class VisitStream final : public httplib::Stream {
 public:
  explicit VisitStream(Visit& visit) : visit_(visit), head_(library_head(visit)) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !visit_.send_failed; }

  ssize_t read(char* to, size_t size) override {
    if (head_read_ < head_.size()) {
      const size_t copied = head_.copy(to, size, head_read_);
      head_read_ += copied;
      return static_cast<ssize_t>(copied);
    }
    const std::string& content = visit_.receiver.content();
    const size_t copied = content.copy(to, size, content_read_);
    content_read_ += copied;
    return static_cast<ssize_t>(copied);
  }

  ssize_t write(const char* from, size_t size) override {
    if (unsent_.size() + size <= kSentAtOnce) {
      unsent_.append(from, size);
    } else {
      flush();
      send({from, size});
    }
    return visit_.send_failed ? -1 : static_cast<ssize_t>(size);
  }

  /// Sends what write() has kept.
  void flush() {
    if (!unsent_.empty()) send(unsent_);
    unsent_.clear();
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { nowhere(ip, port); }
  /// Not the real descriptor: the library answers 500 to those above FD_SETSIZE.
  socket_t socket() const override { return 0; }

 private:
  void send(std::string_view bytes) {
    if (visit_.send_failed) return;
    const auto status = visit_.connection.write(bytes, visit_.send_budget, visit_.stall_max);
    visit_.send_failed = status != TransferStatus::kOk;
  }

  static void nowhere(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }

  static std::string library_head(const Visit& visit) {
    if (needs_decoding(visit)) {
      return "POST / HTTP/1.1\r\nContent-Length: " +
             std::to_string(visit.receiver.content().size()) +
             "\r\nContent-Encoding: " + visit.head.content_encoding + "\r\n\r\n";
    }
    return std::string(visit.head.method == "HEAD" ? "HEAD" : "GET") + " / HTTP/1.1\r\n\r\n";
  }

  Visit& visit_;
  std::string head_;    // of the request
  std::string unsent_;  // of the answer
  size_t head_read_ = 0;
  size_t content_read_ = 0;
};

/// The library's server without its sockets: one request at a time through process_request().
class LibraryServer final : public httplib::Server {
 public:
  void process(httplib::Stream& stream) {
    bool connection_closed = false;
    process_request(stream, false, connection_closed, nullptr);
  }
};

}  // namespace

struct HttpCodec::Impl {
  explicit Impl(Callbacks callbacks_in);

  HttpResponse decode_and_answer(Visit& visit, const httplib::ContentReader& reader) const;
  void hand_over(Visit& visit, httplib::Response& response) const;

  const Callbacks callbacks;
  LibraryServer server;
};

HttpCodec::Impl::Impl(Callbacks callbacks_in) : callbacks(std::move(callbacks_in)) {
  // Requests without a body to decode end here, the others in the handler of the only path there
  // is.
  server.set_pre_routing_handler([this](const httplib::Request& request,
                                        httplib::Response& response) {
    Visit& visit = *current_visit;
    if (request.method == "POST") return httplib::Server::HandlerResponse::Unhandled;
    if (!visit.answered) {
      visit.answer = callbacks.answer(visit, BodyState::kComplete, visit.receiver.take_content());
    }
    hand_over(visit, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Post("/", [this](const httplib::Request&, httplib::Response& response,
                          const httplib::ContentReader& reader) {
    Visit& visit = *current_visit;
    visit.answer = decode_and_answer(visit, reader);
    hand_over(visit, response);
  });
  // No memory for a body, most likely.
  server.set_exception_handler(
      [this](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        Visit& visit = *current_visit;
        ApiError error;
        error.message = "the server failed";
        visit.answer = error_answer(visit.route, error);
        visit.close_after = true;
        hand_over(visit, response);
      });
  server.set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    // The library advertises its own keep-alive limits, and ranges; ours are others.
    response.headers.erase("Keep-Alive");
    response.headers.erase("Accept-Ranges");
    response.headers.erase("Connection");
    // These answers end with their heads (RFC 9110, section 8.6); a cache that believed a length of
    // 0 would cut what it has.
    if (response.status == kNoContent || response.status == kNotModified)
      response.headers.erase("Content-Length");
    response.set_header("Connection", current_visit->close_after ? "close" : "keep-alive");
  });
}

HttpResponse HttpCodec::Impl::decode_and_answer(Visit& visit,
                                                const httplib::ContentReader& reader) const {
  std::string body;
  BodyState state = BodyState::kComplete;
  const bool decoded = reader([&](const char* data, size_t size) {
    if (size > visit.body_bytes_max - body.size()) {
      state = BodyState::kTooLarge;
    } else if (!visit.receiver.share().grow(size)) {
      state = BodyState::kOverloaded;
    } else {
      body.append(data, size);
    }
    return state == BodyState::kComplete;
  });
  if (!decoded && state == BodyState::kComplete) state = BodyState::kMalformed;
  visit.receiver.take_content();
  return callbacks.answer(visit, state, std::move(body));
}

void HttpCodec::Impl::hand_over(Visit& visit, httplib::Response& response) const {
  callbacks.before_writing(visit);
  response.status = visit.answer.status;
  response.body = std::move(visit.answer.body);
  if (visit.answer.status != kNoContent)
    response.set_header("Content-Type", visit.answer.content_type);
  for (const auto& [name, value] : visit.answer.headers) response.set_header(name, value);
}

HttpCodec::HttpCodec(Callbacks callbacks) : impl_(std::make_unique<Impl>(std::move(callbacks))) {}

HttpCodec::~HttpCodec() = default;

void HttpCodec::process(Visit& visit) {
  const VisitScope scope(visit);
  VisitStream stream(visit);
  impl_->server.process(stream);
  stream.flush();
}

}  // namespace espalier::server
