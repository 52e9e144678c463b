// Makes items ahead on other threads and gives them in order, whatever the number of threads. An
// exception of the producer reaches the consumer at the item where it happened. Nothing is forked.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace cbwc {

template <class Item>
class Prefetcher {
 public:
  using Job = std::function<std::optional<Item>()>;  // makes one item; nullopt ends the stream

  // plan() is called in order and never twice at once; its jobs run side by side. At most
  // max(depth, workers) items are finished or in work.
  Prefetcher(std::function<Job()> plan, size_t depth, size_t workers)
      : plan_(std::move(plan)), depth_(std::max(depth, workers)) {
    for (size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { run(); });
  }
  // produce() is called on the one other thread only.
  Prefetcher(Job produce, size_t depth)
      : Prefetcher(std::function<Job()>([produce] { return produce; }), depth, 1) {}
  ~Prefetcher() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<Item> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !slots_.empty() && slots_.front()->ready; });
    Slot& front = *slots_.front();
    // The end and an error stay in front: every later call gives them again.
    if (front.error) std::rethrow_exception(front.error);
    if (!front.item) return std::nullopt;
    std::optional<Item> item = std::move(front.item);
    slots_.pop_front();
    changed_.notify_all();
    return item;
  }

 private:
  struct Slot {
    std::optional<Item> item;
    std::exception_ptr error;
    bool ready = false;
  };

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || slots_.size() < depth_; });
      if (stop_) return;
      const auto slot = std::make_shared<Slot>();
      slots_.push_back(slot);
      Job job;
      std::optional<Item> item;
      std::exception_ptr error;
      try {
        job = plan_();
        lock.unlock();
        item = job();
      } catch (...) {
        error = std::current_exception();
      }
      if (!lock.owns_lock()) lock.lock();
      slot->item = std::move(item);
      slot->error = error;
      slot->ready = true;
      if (!slot->item) stop_ = true;
      changed_.notify_all();
    }
  }

  std::function<Job()> plan_;
  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool stop_ = false;
  std::vector<std::thread> threads_;  // last: they start when everything above exists
};

}  // namespace cbwc
