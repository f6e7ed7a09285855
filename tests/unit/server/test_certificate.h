// A self-signed certificate for "localhost" and its key, as files.
#pragma once

#include <string>

namespace espalier::server {

class TestCertificate {
 public:
  /// Valid until `seconds_left` from now, which may be past. The files go away with this.
  explicit TestCertificate(long seconds_left = 3600);
  ~TestCertificate();
  TestCertificate(const TestCertificate&) = delete;
  TestCertificate& operator=(const TestCertificate&) = delete;

  const std::string& certificate_file() const { return certificate_file_; }
  const std::string& key_file() const { return key_file_; }
  /// "…" in hexadecimal: unlike that of every other one.
  const std::string& serial() const { return serial_; }

 private:
  std::string certificate_file_;
  std::string key_file_;
  std::string serial_;
};

}  // namespace espalier::server
