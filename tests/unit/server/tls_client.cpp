#include "tls_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <stdexcept>

namespace espalier::server {

TlsClient::TlsClient(uint16_t port, int version)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      settings_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
      ssl_(nullptr, SSL_free) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error("connect");
  const timeval patience{20, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  // Old versions are refused by OpenSSL itself above security level 0.
  SSL_CTX_set_security_level(settings_.get(), 0);
  SSL_CTX_set_min_proto_version(settings_.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(settings_.get(), version);
  ssl_.reset(SSL_new(settings_.get()));
  SSL_set_fd(ssl_.get(), socket_.get());
  ERR_clear_error();
  connected_ = SSL_connect(ssl_.get()) == 1;
}

std::string TlsClient::server_serial() const {
  const std::unique_ptr<X509, void (*)(X509*)> certificate(SSL_get1_peer_certificate(ssl_.get()),
                                                           X509_free);
  const std::unique_ptr<BIGNUM, void (*)(BIGNUM*)> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr), BN_free);
  char* const text = BN_bn2hex(number.get());
  std::string serial(text);
  OPENSSL_free(text);
  return serial;
}

bool TlsClient::send(std::string_view bytes) {
  ERR_clear_error();
  return bytes.empty() || SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) ==
                              static_cast<int>(bytes.size());
}

std::string TlsClient::receive() {
  std::array<char, 65536> bytes;
  ERR_clear_error();
  const int count = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  if (count > 0) return {bytes.data(), static_cast<size_t>(count)};
  closed_cleanly_ = SSL_get_error(ssl_.get(), count) == SSL_ERROR_ZERO_RETURN;
  return {};
}

std::string TlsClient::key_updates(int count) {
  BIO* const memory = BIO_new(BIO_s_mem());
  SSL_set0_wbio(ssl_.get(), memory);
  for (int i = 0; i < count; ++i) {
    SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(ssl_.get());
  }
  const char* bytes = nullptr;
  const auto size = BIO_get_mem_data(memory, &bytes);
  return {bytes, static_cast<size_t>(size)};
}

void TlsClient::send_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string TlsClient::receive_answer() {
  const std::string field = "Content-Length: ";
  while (true) {
    const size_t head_end = received_.find("\r\n\r\n");
    if (head_end != std::string::npos) {
      const size_t length = std::stoul(received_.substr(received_.find(field) + field.size()));
      const size_t end = head_end + 4 + length;
      if (received_.size() >= end) {
        std::string answer = received_.substr(0, end);
        received_.erase(0, end);
        return answer;
      }
    }
    const std::string more = receive();
    if (more.empty()) return {};
    received_ += more;
  }
}

}  // namespace espalier::server
