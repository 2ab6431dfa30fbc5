#include "tests/standin_cuda/driver/capture.h"

#include <algorithm>
#include <utility>

namespace stepgate::standin {

void add_node(CUgraph_st& graph, Frontier& frontier, std::function<void()> work) {
  graph.nodes.push_back({std::move(work), std::move(frontier)});
  frontier = {graph.nodes.size() - 1};
}

void join(Frontier& into, const Frontier& other) {
  into.insert(into.end(), other.begin(), other.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
}

bool all_joined(const CUgraph_st& graph, const Frontier& frontier) {
  std::vector<bool> reached(graph.nodes.size(), false);
  for (const std::size_t i : frontier) reached[i] = true;
  // A node's dependencies have smaller numbers than its own.
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const std::size_t before : graph.nodes[i].after) reached[before] = true;
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

std::vector<std::size_t> random_order(const CUgraph_st& graph, std::mt19937_64& random) {
  std::vector<std::size_t> waits(graph.nodes.size());
  std::vector<std::vector<std::size_t>> followers(graph.nodes.size());
  std::vector<std::size_t> ready, order;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    waits[i] = graph.nodes[i].after.size();
    for (const std::size_t before : graph.nodes[i].after) followers[before].push_back(i);
    if (waits[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::size_t next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (const std::size_t f : followers[next]) {
      if (--waits[f] == 0) ready.push_back(f);
    }
  }
  return order;
}

}  // namespace stepgate::standin
