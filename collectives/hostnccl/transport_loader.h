// Finds and opens libstepgate_ucx.so, on first need and once.
//
//   TransportLoader loader(TransportLoader::candidates_beside(&some_function_of_this_library));
//   const sgt_table* table = nullptr;
//   Outcome o = loader.load(&table);
//
// Threads: any; the first caller loads, under the loader's own lock, the others wait for it. A failure
// is kept too: what could not be opened is not tried again. The library is never closed: UCX does not
// survive that, and worlds may still be in use at exit. RTLD_LOCAL, so a job's own UCX meets none of
// its symbols.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "collectives/hostnccl/outcome.h"
#include "collectives/ucx/transport.h"

namespace stepgate::hostnccl {

class TransportLoader {
 public:
  explicit TransportLoader(std::vector<std::string> candidates) : candidates_(std::move(candidates)) {}

  // ../libstepgate_ucx.so and libstepgate_ucx.so next to the object that holds `address`, then the
  // plain name for the loader's own search.
  static std::vector<std::string> candidates_beside(const void* address);

  Outcome load(const sgt_table** table);

 private:
  void load_once();

  const std::vector<std::string> candidates_;
  std::mutex mutex_;
  bool tried_ = false;
  const sgt_table* table_ = nullptr;
  Outcome failure_;
};

}  // namespace stepgate::hostnccl
