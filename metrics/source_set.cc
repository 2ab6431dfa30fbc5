#include "metrics/source_set.h"

#include <algorithm>
#include <exception>

#include "metrics/label.h"

namespace stepgate::metrics {

SourceSet::SourceSet(Registry& registry, std::size_t bucket_cap, const AnomalyThresholds& thresholds,
                     std::function<double()> now)
    : registry_(registry), bucket_cap_(bucket_cap), thresholds_(thresholds), now_(std::move(now)) {}

void SourceSet::add(RecordSource& source) {
  const auto page = registry_.page_lock();
  Gate& gate = gate_for(label_text(source.identity().gate));
  entries_.push_back({&gate, std::make_unique<SourceFeed>(source, *gate.series, thresholds_, now_)});
  ++gate.live;
}

void SourceSet::poll(std::vector<Anomaly>* found) {
  const auto page = registry_.page_lock();
  for (Entry& entry : entries_) look(entry, false, found);
}

void SourceSet::remove(const RecordSource* source, std::vector<Anomaly>* found) {
  const auto it = std::find_if(entries_.begin(), entries_.end(),
                               [source](const Entry& e) { return e.feed->source() == source; });
  if (it == entries_.end()) return;
  const auto page = registry_.page_lock();
  look(*it, true, found);
  --it->gate->live;
  entries_.erase(it);
}

void SourceSet::remove_all(std::vector<Anomaly>* found) {
  while (!entries_.empty()) remove(entries_.back().feed->source(), found);
}

void SourceSet::count(const std::vector<Anomaly>& found) {
  if (found.empty() || gates_.empty()) return;
  const auto page = registry_.page_lock();
  for (const Anomaly& a : found) gates_.front().series->anomalies[static_cast<std::size_t>(a.kind)]->add(1);
}

// What a source throws costs its own look, not the other gates' and never the process.
void SourceSet::look(Entry& entry, bool last, std::vector<Anomaly>* found) {
  try {
    if (last) {
      entry.feed->finish(found);
    } else {
      entry.feed->poll(found);
    }
  } catch (const std::exception&) {
    entry.gate->series->errors[static_cast<std::size_t>(Stage::kPublish)]->add(1);
  }
}

SourceSet::Gate& SourceSet::gate_for(const std::string& wanted) {
  std::string name = wanted == kOtherGate ? wanted + "-2" : wanted;
  for (int i = 2;; ++i) {
    Gate* known = find(name);
    if (known == nullptr) return new_gate(name);
    if (known->live == 0) return *known;
    name = wanted + "-" + std::to_string(i);
  }
}

SourceSet::Gate& SourceSet::new_gate(const std::string& name) {
  if (gates_.size() >= kMaxGates) {
    if (Gate* other = find(kOtherGate)) return *other;
    return gates_.emplace_back(
        Gate{kOtherGate, std::make_unique<GateSeries>(registry_, Labels{{"gate", kOtherGate}}, bucket_cap_)});
  }
  Labels base;
  if (!gates_.empty()) {
    base = {{"gate", name}};
    Gate& first = gates_.front();
    first.series->series().rebase({{"gate", first.name}});
  }
  return gates_.emplace_back(Gate{name, std::make_unique<GateSeries>(registry_, base, bucket_cap_)});
}

SourceSet::Gate* SourceSet::find(const std::string& name) {
  const auto it = std::find_if(gates_.begin(), gates_.end(), [&](const Gate& g) { return g.name == name; });
  return it == gates_.end() ? nullptr : &*it;
}

}  // namespace stepgate::metrics
