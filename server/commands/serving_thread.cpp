#include "server/commands/serving_thread.h"

#include <utility>

namespace espalier::commands {

ServingThread::ServingThread(server::HttpServer& http, std::vector<server::Route> routes)
    : http_(http), thread_([this, routes = std::move(routes)]() mutable {
        try {
          http_.serve(std::move(routes));
        } catch (...) {
          failure_ = std::current_exception();
        }
      }) {}

ServingThread::~ServingThread() {
  if (!thread_.joinable()) return;
  http_.stop();
  http_.abandon();
  thread_.join();
}

void ServingThread::join() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace espalier::commands
