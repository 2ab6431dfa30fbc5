// A mesh of communicators over the ranks of a World: one FakeNccl per line of each dimension.
//
//   Mesh mesh({2, 3}, 7);                         6 ranks: lines of 2, and across them lines of 3
//   mesh.add_groups(r);                           this rank's communicator of each dimension, in order
//   mesh.line(0, rank).set_fate(mesh.place(0, rank), 1, Fate::kSumLost);
//
// Rank r stands at place (r / stride) % size of a dimension; the first one's stride is 1.
// Thread: add_groups from the rank's own, the rest before they start. Ownership: outlives the gates.
#pragma once

#include "tests/plugin/fake_world.h"

namespace stepgate::test {

class Mesh {
 public:
  Mesh(std::vector<int> sizes, std::uint64_t seed) : sizes_(std::move(sizes)) {
    for (const int size : sizes_) world_ *= size;
    std::mt19937_64 random(seed);
    for (const int size : sizes_) {
      auto& lines = lines_.emplace_back();
      for (int i = 0; i < world_ / size; ++i) {
        lines.push_back(std::make_unique<FakeNccl>(size, random(), std::chrono::seconds(60)));
      }
    }
  }

  int world() const { return world_; }
  std::size_t dimensions() const { return sizes_.size(); }
  int place(std::size_t dimension, int rank) const { return rank / stride(dimension) % sizes_[dimension]; }
  FakeNccl& line(std::size_t dimension, int rank) {
    const int s = stride(dimension);
    const int number = rank / (s * sizes_[dimension]) * s + rank % s;
    return *lines_[dimension][static_cast<std::size_t>(number)];
  }
  ncclComm_t comm(std::size_t dimension, int rank) {
    return line(dimension, rank).comm(place(dimension, rank));
  }
  void add_groups(Rank& r) {
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      EXPECT_EQ(r.gate().add_group(comm(d, r.rank())), STEPGATE_OK) << gate::last_error();
    }
  }

 private:
  int stride(std::size_t dimension) const {
    int s = 1;
    for (std::size_t d = 0; d < dimension; ++d) s *= sizes_[d];
    return s;
  }

  std::vector<int> sizes_;
  int world_ = 1;
  std::vector<std::vector<std::unique_ptr<FakeNccl>>> lines_;
};

}  // namespace stepgate::test
