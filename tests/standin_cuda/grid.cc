// Compiled without ThreadSanitizer's instrumentation: the scheduler must not order what it runs.
#include "tests/standin_cuda/grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/standin_cuda/fiber.h"

namespace stepgate::standin {
namespace {

constexpr unsigned kWorkers = 2;

[[noreturn]] void die(const char* what, const Identity& who) {
  std::fprintf(stderr, "stand-in for CUDA: %s (block %u of %u, %u threads)\n", what, who.block.x,
               who.grid_size.x, who.block_size.x);
  std::abort();
}

struct Barrier {
  unsigned generation = 0;
  unsigned arrived = 0;
  // In turn: who comes late out of one barrier must not see what others did on their way to the next.
  long long tags[2] = {};
};

struct Warp {
  Barrier barrier;
  unsigned alive = kLanes;
  // Two sets in turn: a lane cannot be two exchanges ahead of another.
  alignas(16) unsigned char slots[2][kLanes * kSlotBytes] = {};
};

class Block;

struct Thread {
  Fiber fiber;
  Identity who;
  Block* block = nullptr;
};

// One block at a time, in one OS thread.
class Block {
 public:
  Block(unsigned grid, unsigned threads, const std::function<void()>& body, char* stacks);
  void run(unsigned index);

  void wait(Barrier& barrier, const unsigned& alive);
  Thread& current() { return *current_; }
  Warp& warp() { return warps_[current_->who.thread.x / kLanes]; }
  Barrier& barrier() { return barrier_; }
  const unsigned& alive() const { return alive_; }

 private:
  static void enter(void* thread);
  bool turn();

  const std::function<void()>& body_;
  char* stacks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  Barrier barrier_;
  Thread* current_ = nullptr;
  unsigned alive_ = 0;
  unsigned progress_ = 0;
  long long started_ = 0, ended_ = 0;  // tags
};

thread_local Block* running = nullptr;
long long fence_tag;

Block::Block(unsigned grid, unsigned threads, const std::function<void()>& body, char* stacks)
    : body_(body), stacks_(stacks), threads_(threads), warps_(threads / kLanes) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_[i].who.thread.x = i;
    threads_[i].who.block_size = {threads, 1, 1};
    threads_[i].who.grid_size = {grid, 1, 1};
    threads_[i].block = this;
  }
}

void Block::enter(void* thread) {
  auto* self = static_cast<Thread*>(thread);
  Block& block = *self->block;
  synchronizes_acquire(&block.started_);
  block.body_();
  synchronizes_release(&block.ended_);
  --block.warp().alive;
  --block.alive_;
  ++block.progress_;
}

// Every thread once; false when none of them got anywhere.
bool Block::turn() {
  const unsigned before = progress_;
  for (Thread& t : threads_) {
    if (t.fiber.done()) continue;
    current_ = &t;
    t.fiber.resume();
  }
  return progress_ != before;
}

void Block::run(unsigned index) {
  alive_ = static_cast<unsigned>(threads_.size());
  std::fill(warps_.begin(), warps_.end(), Warp{});
  for (unsigned i = 0; i < threads_.size(); ++i) {
    threads_[i].who.block.x = index;
    threads_[i].fiber.prepare(stacks_ + std::size_t{i} * kStackBytes, enter, &threads_[i]);
  }
  running = this;
  synchronizes_release(&started_);
  while (alive_ != 0) {
    if (!turn()) die("a barrier that not all threads reach", current_->who);
  }
  synchronizes_acquire(&ended_);
  running = nullptr;
}

void Block::wait(Barrier& barrier, const unsigned& alive) {
  const unsigned generation = barrier.generation;
  long long* const tag = &barrier.tags[generation % 2];
  synchronizes_release(tag);
  ++barrier.arrived;
  ++progress_;
  while (barrier.generation == generation) {
    if (barrier.arrived >= alive) {
      barrier.arrived = 0;
      ++barrier.generation;
      ++progress_;
      break;
    }
    current_->fiber.yield();
  }
  synchronizes_acquire(tag);
}

// Stacks are kept: touching them for the first time costs more than most kernels here.
class Stacks {
 public:
  char* take(unsigned threads) {
    const std::lock_guard lock(mutex_);
    for (auto& [count, memory] : free_) {
      if (count != threads) continue;
      char* const taken = memory;
      std::swap(free_.back().first, count);
      std::swap(free_.back().second, memory);
      free_.pop_back();
      return taken;
    }
    void* fresh = mmap(nullptr, threads * kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) {
      std::perror("stand-in for CUDA: no memory for stacks");
      std::abort();
    }
    return static_cast<char*>(fresh);
  }
  void give_back(unsigned threads, char* memory) {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(threads, memory);
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<unsigned, char*>> free_;
};

// Never destroyed: streams may still run at exit. ThreadSanitizer does not see what orders a local
// static in this file, so it is told.
Stacks& stacks() {
  static Stacks* const kept = [] {
    auto* made = new Stacks;
    synchronizes_release(made);
    return made;
  }();
  synchronizes_acquire(kept);
  return *kept;
}

void run_blocks(unsigned grid, unsigned block, const std::function<void()>& body,
                std::atomic<unsigned>& next) {
  char* memory = stacks().take(block);
  {
    Block b(grid, block, body, memory);
    for (unsigned i = next.fetch_add(1, std::memory_order_relaxed); i < grid;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      b.run(i);
    }
  }
  stacks().give_back(block, memory);
}

}  // namespace

void run_grid(unsigned grid, unsigned block, const std::function<void()>& body) {
  if (block == 0 || block % kLanes != 0) die("the block is no multiple of a warp", {{}, {}, {block}, {grid}});
  std::atomic<unsigned> next{0};
  if (grid <= 1) return run_blocks(grid, block, body, next);
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < std::min(kWorkers, grid); ++i) {
    workers.emplace_back([&] { run_blocks(grid, block, body, next); });
  }
  for (std::thread& w : workers) w.join();
}

const Identity& identity() {
  return running->current().who;
}

void block_barrier() {
  running->wait(running->barrier(), running->alive());
}

void warp_barrier() {
  Warp& w = running->warp();
  running->wait(w.barrier, w.alive);
}

void fence() {
  synchronizes_release(&fence_tag);
  synchronizes_acquire(&fence_tag);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

const unsigned char* warp_exchange(const void* value, std::size_t bytes) {
  Warp& w = running->warp();
  unsigned char* slots = w.slots[w.barrier.generation % 2];
  std::memcpy(slots + running->current().who.thread.x % kLanes * kSlotBytes, value, bytes);
  running->wait(w.barrier, w.alive);
  return slots;
}

}  // namespace stepgate::standin
