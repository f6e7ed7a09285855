#include "scheduler/hand_off.h"

#include <utility>

#include "scheduler/programmer_error.h"

namespace espalier::scheduler {

namespace {

constexpr size_t kBatches = 2;

}  // namespace

HandOff::HandOff() {
  for (size_t i = 0; i < kBatches; ++i) {
    spares_.push_back(std::make_unique<Batch>());
  }
}

bool HandOff::wait_until_empty() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || slot_ == nullptr; });
  return !closed_;
}

std::unique_ptr<Batch> HandOff::spare() {
  const std::lock_guard lock(mutex_);
  if (spares_.empty()) {
    programmer_error("a batch was asked for while the slot was full");
  }
  std::unique_ptr<Batch> batch = std::move(spares_.back());
  spares_.pop_back();
  return batch;
}

void HandOff::put(std::unique_ptr<Batch> batch) {
  const std::lock_guard lock(mutex_);
  slot_ = std::move(batch);
  changed_.notify_all();
}

std::unique_ptr<Batch> HandOff::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || slot_ != nullptr; });
  if (closed_) {
    return nullptr;
  }
  changed_.notify_all();
  return std::move(slot_);
}

void HandOff::give_back(std::unique_ptr<Batch> batch) {
  batch->tickets.clear();  // outside the lock: may free the requests
  const std::lock_guard lock(mutex_);
  spares_.push_back(std::move(batch));
}

void HandOff::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace espalier::scheduler
