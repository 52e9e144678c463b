#include "tests/support/cuda_emulation/emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>

#include "core/check.h"

namespace cbwc::emulated {
namespace {

constexpr size_t kStackBytes = 64 * 1024;
constexpr size_t kCanaryBytes = 64;
constexpr unsigned char kCanary = 0xa5;

enum class State { ready, barrier, shuffle, done };

struct Fiber {
  ucontext_t context;
  State state = State::ready;
  int line = 0;  // where it waits
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0;
};

struct Block {
  const char* name = "";
  const std::function<void()>* thread = nullptr;
  std::vector<Fiber> fibers;
  std::vector<std::unique_ptr<char[]>> stacks;
  std::vector<unsigned char> shared;
  ucontext_t scheduler;
  size_t running = 0;
};
Block block;

void fiber_main() {
  (*block.thread)();
  block.fibers[block.running].state = State::done;
}

void wait(State state, int line) {
  Fiber& self = block.fibers[block.running];
  self.state = state;
  self.line = line;
  swapcontext(&self.context, &block.scheduler);
}

const char* whereabouts(const Fiber& fiber) {
  switch (fiber.state) {
    case State::barrier:
      return "waits at the barrier of line ";
    case State::shuffle:
      return "waits at the shuffle of line ";
    default:
      return "has ended; it last waited at line ";
  }
}

// All lanes of the mask stand at the same shuffle: gives each the value that it asked for.
void finish_shuffle(size_t first) {
  Fiber* const warp = &block.fibers[first / 32 * 32];
  const size_t lanes = std::min<size_t>(32, block.fibers.size() - first / 32 * 32);
  const Fiber& asking = block.fibers[first];
  const unsigned mask = asking.mask;
  CBWC_CHECK(mask >> (first % 32) & 1u, block.name, ": thread ", first,
             " is not in the mask of its shuffle, line ", asking.line);
  for (size_t i = 0; i < 32; ++i) {
    if (!(mask >> i & 1u)) continue;
    CBWC_CHECK(i < lanes, block.name, ": the shuffle of line ", asking.line, " names lane ", i,
               ", which the block does not have");
    const Fiber& other = warp[i];
    CBWC_CHECK(other.state == State::shuffle && other.mask == mask && other.line == asking.line,
               block.name, ": divergent shuffle: thread ", first, " waits at line ", asking.line,
               ", thread ", first / 32 * 32 + i, " ", whereabouts(other), other.line);
    CBWC_CHECK(mask >> other.source & 1u, block.name, ": the shuffle of line ", asking.line,
               " reads lane ", other.source, ", which is not in its mask");
  }
  uint64_t values[32] = {};
  for (size_t i = 0; i < lanes; ++i) values[i] = warp[i].value;
  for (size_t i = 0; i < lanes; ++i) {
    if (!(mask >> i & 1u)) continue;
    warp[i].value = values[warp[i].source];
    warp[i].state = State::ready;
  }
}

// No thread can go on by itself: lets all shuffles happen, or else the barrier.
void release_waiting() {
  bool shuffled = false;
  for (size_t i = 0; i < block.fibers.size(); ++i) {
    if (block.fibers[i].state != State::shuffle) continue;
    finish_shuffle(i);
    shuffled = true;
  }
  if (shuffled) return;
  const auto waits = [](const Fiber& fiber) { return fiber.state == State::barrier; };
  const auto first = std::find_if(block.fibers.begin(), block.fibers.end(), waits);
  for (const Fiber& fiber : block.fibers)
    CBWC_CHECK(waits(fiber) && fiber.line == first->line, block.name,
               ": divergent barrier: thread ", first - block.fibers.begin(), " waits at line ",
               first->line, ", thread ", &fiber - block.fibers.data(), " ", whereabouts(fiber),
               fiber.line);
  for (Fiber& fiber : block.fibers) fiber.state = State::ready;
}

void run_block() {
  const auto done = [](const Fiber& fiber) { return fiber.state == State::done; };
  while (true) {
    for (size_t i = 0; i < block.fibers.size(); ++i) {
      if (block.fibers[i].state != State::ready) continue;
      block.running = i;
      current_thread.x = static_cast<unsigned>(i);
      swapcontext(&block.scheduler, &block.fibers[i].context);
    }
    if (std::all_of(block.fibers.begin(), block.fibers.end(), done)) return;
    release_waiting();
  }
}

void start_block(const Grid& grid) {
  const auto threads = static_cast<size_t>(grid.threads);
  block.fibers.assign(threads, Fiber{});
  while (block.stacks.size() < threads)
    block.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  for (size_t i = 0; i < threads; ++i) {
    ucontext_t& context = block.fibers[i].context;
    getcontext(&context);
    context.uc_stack.ss_sp = block.stacks[i].get();
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = &block.scheduler;
    makecontext(&context, fiber_main, 0);
  }
  // NaN at first, as nothing may be read before it is written.
  block.shared.assign(grid.shared_bytes, 0xff);
  block.shared.insert(block.shared.end(), kCanaryBytes, kCanary);
}

}  // namespace

void run_grid(const char* name, const Grid& grid, const std::function<void()>& thread) {
  CBWC_CHECK(grid.blocks > 0 && grid.blocks <= 0x7fffffff, name, ": ", grid.blocks, " blocks");
  CBWC_CHECK(grid.threads > 0 && grid.threads <= 1024, name, ": ", grid.threads,
             " threads a block");
  CBWC_CHECK(grid.shared_bytes <= 48 * 1024, name, ": ", grid.shared_bytes,
             " bytes of shared memory");
  block.name = name;
  block.thread = &thread;
  block_size = {static_cast<unsigned>(grid.threads), 1, 1};
  grid_size = {static_cast<unsigned>(grid.blocks), 1, 1};
  for (int64_t b = 0; b < grid.blocks; ++b) {
    current_block.x = static_cast<unsigned>(b);
    start_block(grid);
    run_block();
    for (size_t i = 0; i < kCanaryBytes; ++i)
      CBWC_CHECK(block.shared[grid.shared_bytes + i] == kCanary, name,
                 ": written beyond the block's shared memory");
  }
}

void barrier(int line) { wait(State::barrier, line); }

uint64_t exchange(unsigned mask, uint64_t value, int source, int line) {
  Fiber& self = block.fibers[block.running];
  self.mask = mask;
  self.value = value;
  self.source = source;
  wait(State::shuffle, line);
  return self.value;
}

unsigned char* shared_bytes() { return block.shared.data(); }

}  // namespace cbwc::emulated
