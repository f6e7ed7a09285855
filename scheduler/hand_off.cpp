#include "scheduler/hand_off.h"

#include <utility>

namespace espalier::scheduler {
namespace {

constexpr size_t kBatches = 2;

}  // namespace

HandOff::HandOff() {
  spares_.reserve(kBatches);
  for (size_t i = 0; i < kBatches; ++i) {
    spares_.push_back(std::make_unique<Batch>());
  }
}

std::unique_ptr<Batch> HandOff::wait_for_spare() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || (slot_ == nullptr && !spares_.empty()); });
  if (closed_) {
    return nullptr;
  }
  std::unique_ptr<Batch> batch = std::move(spares_.back());
  spares_.pop_back();
  return batch;
}

Wanted HandOff::wait_until_wanted() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || wanted_soon_ || wanted_now_; });
  if (closed_) {
    return Wanted::kNever;
  }
  return wanted_now_ ? Wanted::kNow : Wanted::kSoon;
}

void HandOff::put(std::unique_ptr<Batch> batch) {
  const std::lock_guard lock(mutex_);
  slot_ = std::move(batch);
  wanted_soon_ = false;
  wanted_now_ = false;
  changed_.notify_all();
}

std::unique_ptr<Batch> HandOff::take() {
  std::unique_lock lock(mutex_);
  if (slot_ == nullptr) {
    wanted_now_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return closed_ || slot_ != nullptr; });
  }
  if (closed_) {
    return nullptr;
  }
  changed_.notify_all();
  return std::move(slot_);
}

void HandOff::want_soon() {
  const std::lock_guard lock(mutex_);
  if (slot_ == nullptr && !wanted_soon_) {
    wanted_soon_ = true;
    changed_.notify_all();
  }
}

void HandOff::give_back(std::unique_ptr<Batch> batch) {
  batch->choice.clear();  // outside the lock: may free the requests
  const std::lock_guard lock(mutex_);
  spares_.push_back(std::move(batch));
  changed_.notify_all();
}

void HandOff::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace espalier::scheduler
