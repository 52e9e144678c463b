// Several calls timed against each other in one process.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace cbwc {

struct Timed {
  std::string name;
  std::function<void()> run;
  std::vector<double> ms = {}, cold_ms = {};
};

double time_calls(const std::function<void()>& run, int64_t calls);  // ms of one

// Each op is warmed by one call and timed over a batch of calls, so that all run on the cache state
// of their own; the order turns from repeat to repeat.
void time_ops(std::vector<Timed>& ops, int repeats);

// Adds up a buffer as fast as the machine can read it: one sum for each kReadChunk numbers. What
// reading a model's weights costs at least, once they leave the caches.
constexpr int64_t kReadChunk = 1 << 14;
template <class T>
void read_pass(const T* data, int64_t n, std::vector<T>& sums);

}  // namespace cbwc
