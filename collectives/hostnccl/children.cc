#include "collectives/hostnccl/children.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stepgate::hostnccl {
namespace {

const char* name_of(const ChildRequest& request) {
  return request.kind == ChildRequest::kSplit ? "ncclCommSplit" : "ncclCommShrink";
}

std::vector<int> everybody(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Outcome named(const ChildRequest& request, Outcome outcome) {
  outcome.message = std::string(name_of(request)) + ": " + outcome.message;
  return outcome;
}

// `members` are ranks of `parent`, this one among them.
Outcome connect_child(Communicator& parent, const std::vector<int>& members, bool parent_is_whole,
                      const Config& config, std::shared_ptr<Communicator>* child) {
  const auto me = std::find(members.begin(), members.end(), parent.rank());
  const auto made = Communicator::make(parent.table(), static_cast<int>(me - members.begin()),
                                       static_cast<int>(members.size()), config);
  if (Outcome o = made->join(parent, members, parent_is_whole); !o.ok()) return o;
  if (Outcome o = made->adopt_device_of(parent); !o.ok()) {
    made->abort();
    (void)made->destroy();
    return o;
  }
  *child = made;
  return success();
}

Outcome split_over(Communicator& parent, const ChildRequest& request, std::shared_ptr<Communicator>* child) {
  const int mine[2] = {request.color, request.key};
  std::vector<int> all(2 * static_cast<std::size_t>(parent.size()));
  if (Outcome o = parent.exchange(mine, 2, all.data()); !o.ok()) return o;
  if (request.color == NCCL_SPLIT_NOCOLOR) return success();
  // It was whole just now: a death since then is a reason to give up, also one that is known already.
  return connect_child(parent, ranks_of_color(all, request.color), true, request.config, child);
}

// A revoked communicator carries no data any more: its ranks meet once more, for the colors.
Outcome split_revoked(Communicator& parent, const ChildRequest& request,
                      std::shared_ptr<Communicator>* child) {
  std::shared_ptr<Communicator> all;
  if (Outcome o = connect_child(parent, everybody(parent.size()), false, parent.config(), &all); !o.ok())
    return o;
  Outcome split;
  {
    const std::lock_guard owner(all->use());
    split = split_over(*all, request, child);
  }
  if (!split.ok()) all->abort();
  (void)all->destroy();
  return split;
}

Outcome shrink(Communicator& parent, const ChildRequest& request, std::shared_ptr<Communicator>* child) {
  std::vector<int> left;
  if (Outcome o = ranks_left(request.excluded, parent.rank(), parent.size(), &left); !o.ok()) return o;
  return connect_child(parent, left, parent.whole(), request.config, child);
}

}  // namespace

Outcome ranks_left(std::vector<int> excluded, int rank, int size, std::vector<int>* left) {
  std::sort(excluded.begin(), excluded.end());
  const auto refuse = [](const std::string& why) { return invalid_argument("excludeRanksList " + why); };
  if (excluded.empty()) return refuse("is empty; allowed: at least one rank");
  if (excluded.front() < 0 || excluded.back() >= size) {
    const int bad = excluded.front() < 0 ? excluded.front() : excluded.back();
    return refuse("names rank " + std::to_string(bad) + "; allowed: 0 to " + std::to_string(size - 1));
  }
  if (std::adjacent_find(excluded.begin(), excluded.end()) != excluded.end())
    return refuse("names a rank twice");
  if (std::binary_search(excluded.begin(), excluded.end(), rank)) {
    return refuse("names this rank, " + std::to_string(rank) + ": ranks that are to go do not call");
  }
  const std::vector<int> all = everybody(size);
  left->clear();
  std::set_difference(all.begin(), all.end(), excluded.begin(), excluded.end(), std::back_inserter(*left));
  return success();
}

std::vector<int> ranks_of_color(const std::vector<int>& colors_and_keys, int color) {
  std::vector<int> members;
  for (std::size_t rank = 0; 2 * rank < colors_and_keys.size(); ++rank) {
    if (colors_and_keys[2 * rank] == color) members.push_back(static_cast<int>(rank));
  }
  const auto key = [&](int rank) { return colors_and_keys[2 * static_cast<std::size_t>(rank) + 1]; };
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key(a) < key(b); });
  return members;
}

Outcome make_child(Communicator& parent, const ChildRequest& request, std::shared_ptr<Communicator>* child) {
  if (Outcome o = parent.wait_until_idle(); !o.ok()) return named(request, std::move(o));
  const std::lock_guard owner(parent.use());
  Outcome outcome = request.kind == ChildRequest::kShrink ? shrink(parent, request, child)
                    : parent.revoked()                    ? split_revoked(parent, request, child)
                                                          : split_over(parent, request, child);
  return outcome.ok() ? outcome : named(request, std::move(outcome));
}

}  // namespace stepgate::hostnccl
