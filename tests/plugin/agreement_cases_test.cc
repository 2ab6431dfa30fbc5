// Every case of tests/vectors/agreement_cases.json on host memory.
#include "tests/plugin/agreement_cases.h"

#include <cstring>

namespace stepgate::test {
namespace {

class HostCaseRank final : public CaseRank {
 public:
  explicit HostCaseRank(Rank& r) : r_(r) {}

  int rank() const override { return r_.rank(); }
  gate::Gate& gate() override { return r_.gate(); }
  device::Device& device() override { return r_.device(); }
  device::Stream stream() override { return nullptr; }
  stepgate_status activate() override { return r_.activate(); }
  Step end() override { return r_.end(); }
  void all_reduce(ElementType type, void* data, std::size_t count) override {
    r_.all_reduce(type, data, data, count);
  }
  void* allocate(std::size_t bytes) override { return memory_.emplace_back(bytes).data(); }
  void store(void* to, const std::vector<unsigned char>& bytes) override {
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
  std::vector<unsigned char> load(const void* from, std::size_t bytes) override {
    const auto* begin = static_cast<const unsigned char*>(from);
    return {begin, begin + bytes};
  }

 private:
  Rank& r_;
  std::vector<std::vector<unsigned char>> memory_;
};

TEST(GateAgreementCases, AllOfTheFile) {
  run_agreement_cases([](const CaseWorld& c, const CaseBody& body) {
    WorldOptions o{.ranks = c.ranks, .params = c.params, .policy = c.policy};
    o.seed = c.seed;
    o.quiet = c.seed != 0;
    World world(o);
    world.run([&](Rank& r) {
      HostCaseRank rank(r);
      body(rank);
    });
  });
}

}  // namespace
}  // namespace stepgate::test
