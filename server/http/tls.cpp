#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

namespace espalier::server {
namespace {

/// OpenSSL's word for the oldest error of this thread, and none left.
std::string take_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown error";
}

void need_readable(const char* option, const std::string& file) {
  std::ifstream stream(file);
  // A folder opens, but has nothing to read.
  if (stream && stream.peek() != std::ifstream::traits_type::eof()) return;
  const char* const why = stream.is_open() ? "it is empty, or no file" : std::strerror(errno);
  throw std::runtime_error(std::string(option) + ": cannot read " + file + ": " + why);
}

/// Without this OpenSSL would ask for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

void warn_of_dates(const SSL_CTX* settings, const std::string& file) {
  const X509* const certificate = SSL_CTX_get0_certificate(settings);
  if (certificate == nullptr) return;
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    spdlog::warn("--tls-cert: the certificate in {} has expired: clients will refuse it", file);
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    spdlog::warn("--tls-cert: the certificate in {} is not valid yet: clients will refuse it",
                 file);
}

}  // namespace

TlsSession::~TlsSession() {
  send_close();
  SSL_free(ssl_);
}

IoStatus TlsSession::status_of(int result) {
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return IoStatus::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return IoStatus::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return IoStatus::kClosed;
    default:
      failed_ = true;  // OpenSSL allows no further call on it
      return IoStatus::kClosed;
  }
}

IoStatus TlsSession::handshake() {
  if (failed_) return IoStatus::kClosed;
  ERR_clear_error();
  const int result = SSL_accept(ssl_);
  if (result != 1) return status_of(result);
  established_ = true;
  return IoStatus::kOk;
}

IoResult TlsSession::read(char* to, size_t size) {
  if (failed_) return {IoStatus::kClosed, 0};
  ERR_clear_error();
  const int count = SSL_read(ssl_, to, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (count > 0) return {IoStatus::kOk, static_cast<size_t>(count)};
  return {status_of(count), 0};
}

IoResult TlsSession::write(std::string_view bytes) {
  if (failed_ || close_sent_) return {IoStatus::kClosed, 0};
  ERR_clear_error();
  const int count =
      SSL_write(ssl_, bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
  if (count > 0) return {IoStatus::kOk, static_cast<size_t>(count)};
  return {status_of(count), 0};
}

bool TlsSession::has_pending() const { return !failed_ && SSL_pending(ssl_) > 0; }

void TlsSession::send_close() {
  if (!established_ || failed_ || close_sent_) return;
  close_sent_ = true;
  ERR_clear_error();
  SSL_shutdown(ssl_);  // what does not fit into the socket now is not worth waiting for
  ERR_clear_error();
}

TlsContext::TlsContext(std::string certificate_file, std::string key_file)
    : certificate_file_(std::move(certificate_file)),
      key_file_(std::move(key_file)),
      settings_(load()) {
  // OpenSSL writes to sockets without MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
}

TlsContext::Settings TlsContext::load() const {
  need_readable("--tls-cert", certificate_file_);
  need_readable("--tls-key", key_file_);
  ERR_clear_error();
  Settings settings(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!settings) throw std::runtime_error("TLS cannot be set up: " + take_error());
  SSL_CTX* const raw = settings.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Tickets resume sessions; a cache of our own would grow with what clients do.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  // A thousand idle connections should not keep two buffers each.
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  // A read handles one record. With this mode, the default, it would go on until there is content,
  // and a client that sends nothing but new keys would keep the thread of all connections.
  SSL_CTX_clear_mode(raw, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_default_passwd_cb(raw, no_passphrase);
  if (SSL_CTX_use_certificate_chain_file(raw, certificate_file_.c_str()) != 1) {
    throw std::runtime_error("--tls-cert: " + certificate_file_ +
                             " holds no chain of certificates in PEM form: " + take_error());
  }
  // Reads the key and, the certificate being there, compares the two.
  if (SSL_CTX_use_PrivateKey_file(raw, key_file_.c_str(), SSL_FILETYPE_PEM) != 1) {
    const unsigned long code = ERR_peek_error();
    if (ERR_GET_LIB(code) == ERR_LIB_X509) {
      ERR_clear_error();
      throw std::runtime_error("--tls-key: the key in " + key_file_ +
                               " does not belong to the first certificate in " + certificate_file_ +
                               "; the server's own certificate must come first there");
    }
    throw std::runtime_error(
        "--tls-key: " + key_file_ +
        " holds no private key in PEM form without a passphrase: " + take_error());
  }
  warn_of_dates(raw, certificate_file_);
  return settings;
}

void TlsContext::reload() {
  Settings settings = load();
  const std::lock_guard lock(mutex_);
  settings_ = std::move(settings);
}

std::unique_ptr<TlsSession> TlsContext::session(int socket) const {
  Settings settings;
  {
    const std::lock_guard lock(mutex_);
    settings = settings_;
  }
  ERR_clear_error();
  SSL* const ssl = SSL_new(settings.get());  // keeps the settings alive
  if (ssl == nullptr) throw std::bad_alloc();
  auto session = std::make_unique<TlsSession>(ssl);
  if (SSL_set_fd(ssl, socket) != 1) throw std::bad_alloc();
  return session;
}

}  // namespace espalier::server
