// Makes items ahead on one other thread, in order. An exception of the producer reaches the
// consumer at the item where it happened. Nothing is forked.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace cbwc {

template <class Item>
class Prefetcher {
 public:
  // produce() is called on the other thread only; nullopt ends the stream.
  Prefetcher(std::function<std::optional<Item>()> produce, size_t depth)
      : produce_(std::move(produce)), depth_(depth), thread_([this] { run(); }) {}
  ~Prefetcher() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  std::optional<Item> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !items_.empty() || done_; });
    if (items_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    std::optional<Item> item = std::move(items_.front());
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

 private:
  void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || items_.size() < depth_; });
        if (stop_) return;
      }
      std::optional<Item> item;
      std::exception_ptr error;
      try {
        item = produce_();
      } catch (...) {
        error = std::current_exception();
      }
      std::lock_guard lock(mutex_);
      if (item) items_.push_back(std::move(*item));
      error_ = error;
      done_ = !item;
      changed_.notify_all();
      if (done_) return;
    }
  }

  std::function<std::optional<Item>()> produce_;
  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  std::exception_ptr error_;
  bool stop_ = false, done_ = false;
  std::thread thread_;  // last: it starts when everything above exists
};

}  // namespace cbwc
