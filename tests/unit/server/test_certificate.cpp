#include "test_certificate.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace espalier::server {
namespace {

/// Writes a file with `write(FILE*)`.
template <typename Write>
void write_file(const std::string& path, Write write) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"),
                                                             std::fclose);
  if (file == nullptr || write(file.get()) != 1) throw std::runtime_error("cannot write " + path);
}

}  // namespace

TestCertificate::TestCertificate(long seconds_left) {
  static std::atomic<long> count = 0;
  const long number = ++count;
  const std::string base = ::testing::TempDir() + "espalier_tls_" + std::to_string(::getpid()) +
                           "_" + std::to_string(number);
  certificate_file_ = base + ".pem";
  key_file_ = base + ".key";

  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, void (*)(X509*)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 4096 + number);
  char serial[32];
  std::snprintf(serial, sizeof(serial), "%lX", 4096 + number);
  serial_ = serial;
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), seconds_left);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  if (X509_sign(certificate.get(), key.get(), EVP_sha256()) == 0)
    throw std::runtime_error("cannot sign a certificate");
  write_file(certificate_file_,
             [&](std::FILE* file) { return PEM_write_X509(file, certificate.get()); });
  write_file(key_file_, [&](std::FILE* file) {
    return PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
}

TestCertificate::~TestCertificate() {
  std::remove(certificate_file_.c_str());
  std::remove(key_file_.c_str());
}

}  // namespace espalier::server
