#include <gtest/gtest.h>

#include <vector>

#include "tests/collectives/ucx/ranks.h"
namespace stepgate::transport::testing {
TEST(Smoke, All) {
  for (const char* t : {"tcp", "shm"})
    for (int n : {1, 2, 3, 4, 8})
      for (size_t count : {1, 7, 1000, 100000, 1000003}) {
        fprintf(stderr, "%s %d %zu\n", t, n, count);
        run_ranks(n, {t, 20}, [&](Rank& r) {
          std::vector<float> v(count);
          for (size_t i = 0; i < count; ++i) v[i] = float(r.rank + 1 + i % 17);
          auto o = r.allreduce(v.data(), v.data(), count, SGT_FLOAT32, SGT_SUM);
          EXPECT_EQ(o.status, SGT_OK) << o.error.message;
          for (size_t i = 0; i < count; ++i) ASSERT_EQ(v[i], float(n * (n + 1) / 2 + n * (i % 17)));
          o = r.barrier();
          EXPECT_EQ(o.status, SGT_OK) << o.error.message;
        });
      }
}
}  // namespace stepgate::transport::testing
