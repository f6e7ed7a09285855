// What is left to cpp-httplib: decoding bodies (gzip, deflate, brotli) and writing answers. The
// only file that includes httplib.h is http_codec.cpp.
//
// Thread contract: process() on many threads at once.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "server/http/visit.h"

namespace espalier::server {

class HttpCodec {
 public:
  struct Callbacks {
    /// Answers a visit that has no answer yet. The body's state is kComplete, or why there is none
    /// that could be decoded.
    std::function<HttpResponse(Visit&, BodyState, std::string body)> answer;
    /// Completes Visit::answer and Visit::close_after; called once, right before it is written.
    std::function<void(Visit&)> before_writing;
  };
  explicit HttpCodec(Callbacks callbacks);
  ~HttpCodec();

  /// Decodes the body, which has arrived whole if it is read at all, has it answered, and writes
  /// the answer to the connection: Visit::send_failed tells how that went.
  void process(Visit& visit);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::server
