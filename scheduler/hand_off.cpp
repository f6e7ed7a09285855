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

std::unique_ptr<Batch> HandOff::wait_for_spare() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || (slot_ == nullptr && !resting_); });
  if (closed_) {
    return nullptr;
  }
  if (spares_.empty()) {
    programmer_error("more batches were asked for than travel");
  }
  std::unique_ptr<Batch> batch = std::move(spares_.back());
  spares_.pop_back();
  planning_ = true;
  return batch;
}

void HandOff::put(std::unique_ptr<Batch> batch) {
  const std::lock_guard lock(mutex_);
  if (batch->tickets.empty()) {
    spares_.push_back(std::move(batch));
  } else {
    slot_ = std::move(batch);
  }
  planning_ = false;
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

std::unique_ptr<Batch> HandOff::recall() {
  std::unique_lock lock(mutex_);
  resting_ = true;
  changed_.wait(lock, [this] { return !planning_; });
  return std::move(slot_);
}

void HandOff::resume() {
  const std::lock_guard lock(mutex_);
  resting_ = false;
  changed_.notify_all();
}

void HandOff::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace espalier::scheduler
