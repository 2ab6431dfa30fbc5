#include "plugin/core/identity.h"

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "plugin/core/config_table.h"
#include "plugin/core/label_text.h"

namespace stepgate::gate {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();

enum Field : std::size_t { kRank, kWorld, kLocalRank, kLocalWorld, kFields };

struct Launcher {
  const char* name;
  std::array<const char*, kFields> variables;  // nullptr: it exports none
};

// In the order of their right to name this process.
constexpr Launcher kLaunchers[] = {
    {"torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}},
    {"Open MPI",
     {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE"}},
    {"PMIx", {"PMIX_RANK", nullptr, nullptr, nullptr}},
    {"Slurm", {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"}},
};
constexpr std::size_t kLauncherCount = std::size(kLaunchers);

constexpr const char* kNames[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "LOCAL_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "PMIX_RANK",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_LOCALID",
                                  "SLURM_STEP_TASKS_PER_NODE",
                                  "STEPGATE_RUN_ID",
                                  "TORCHELASTIC_RUN_ID",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  "PMIX_NAMESPACE",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "SLURM_RESTART_COUNT"};

struct Said {
  const char* variable = nullptr;
  const char* text = nullptr;  // nullptr: unset or empty
  std::optional<std::uint64_t> value;
};
using Sayings = std::array<std::array<Said, kFields>, kLauncherCount>;

// "4" or, of SLURM_STEP_TASKS_PER_NODE, "4(x2),3": the first machine's, which is the fullest.
std::optional<std::uint64_t> parse(const char* text, bool per_node) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text, text + std::strlen(text), value);
  const bool ended = *end == '\0' || (per_node && (*end == '(' || *end == ','));
  if (code != std::errc() || !ended || value > kMost) return std::nullopt;
  return value;
}

class Inquiry {
 public:
  explicit Inquiry(const Environment& environment) : environment_(environment) {
    for (std::size_t l = 0; l < kLauncherCount; ++l) {
      for (std::size_t f = 0; f < kFields; ++f) said_[l][f] = ask(kLaunchers[l].variables[f], f);
    }
  }

  void numbers();
  void labels();
  void restarts();
  const std::string& error() const { return error_; }
  JobIdentity& found() { return found_; }

 private:
  // An empty variable counts as unset: launchers export names they have no value for.
  const char* look(const char* variable) const {
    const char* text = variable != nullptr ? environment_(variable) : nullptr;
    return text != nullptr && *text != '\0' ? text : nullptr;
  }
  Said ask(const char* variable, std::size_t field) const {
    Said s{variable, look(variable), std::nullopt};
    if (s.text == nullptr) return s;
    s.value = parse(s.text, std::strcmp(variable, "SLURM_STEP_TASKS_PER_NODE") == 0);
    if (field % 2 == 1 && s.value == 0u) s.value.reset();  // sizes are at least 1
    return s;
  }

  std::uint64_t take(Field field, std::uint64_t fallback);
  bool speaks_for(std::size_t launcher) const;
  void contradictions();
  void pass_over();
  void doubt(const Said& held, std::uint64_t holds, const Said& other, std::size_t launcher);
  bool label(const char* variable, std::string* out);
  void count(const char* variable, std::optional<std::uint64_t>* out);
  void refuse(const char* variable, const char* text) {
    if (error_.empty()) error_ = refused_value(variable, text);
  }

  const Environment& environment_;
  Sayings said_;
  std::size_t chosen_ = 0;  // who names this process
  JobIdentity found_;
  std::string error_;
};

// Whether a launcher's other figures may be taken: it gives no rank, or this process's.
bool Inquiry::speaks_for(std::size_t launcher) const {
  const Said& rank = said_[launcher][kRank];
  return launcher == chosen_ || rank.text == nullptr || rank.value == found_.rank;
}

std::uint64_t Inquiry::take(Field field, std::uint64_t fallback) {
  for (std::size_t k = 0; k < kLauncherCount; ++k) {
    const std::size_t l = k == 0 ? chosen_ : (k <= chosen_ ? k - 1 : k);  // the chosen one, then the others
    const Said& s = said_[l][field];
    if (s.text == nullptr || !speaks_for(l)) continue;
    if (!s.value) refuse(s.variable, s.text);
    return s.value.value_or(fallback);
  }
  return fallback;
}

void Inquiry::numbers() {
  while (chosen_ < kLauncherCount && said_[chosen_][kRank].text == nullptr) ++chosen_;
  if (chosen_ == kLauncherCount) chosen_ = 0;
  const bool named = said_[chosen_][kRank].text != nullptr;
  if (named) found_.launcher = kLaunchers[chosen_].name;
  found_.rank = take(kRank, 0);
  found_.world = take(kWorld, 1);
  found_.local_rank = take(kLocalRank, 0);
  found_.local_world = take(kLocalWorld, 1);
  if (error_.empty() && found_.rank >= found_.world && said_[chosen_][kWorld].variable == nullptr) {
    return pass_over();
  }
  if (error_.empty() && found_.rank >= found_.world) {
    const Said& rank = said_[chosen_][kRank];
    error_ = std::string(rank.variable) + "='" + rank.text + "' is refused; allowed: 0 to " +
             said_[chosen_][kWorld].variable + " - 1 = " + std::to_string(found_.world - 1);
  }
  if (error_.empty() && named) contradictions();
}

// A rank among nobody knows how many. Refusing it would leave rank 0, which fits into any number, alone with
// a gate; so all are as if nobody had named them, and a job that tells each gate its rank and world goes on.
void Inquiry::pass_over() {
  const Said& rank = said_[chosen_][kRank];
  found_.doubts.push_back(std::string(rank.variable) + "=" + rank.text + " of " + found_.launcher +
                          " is passed over: nobody says how many ranks there are");
  found_.rank = 0;
  found_.launcher = "";
}

void Inquiry::doubt(const Said& held, std::uint64_t holds, const Said& other, std::size_t launcher) {
  found_.doubts.push_back(std::string(held.variable != nullptr ? held.variable : "the launcher's value") +
                          "=" + std::to_string(holds) + " of " + found_.launcher + " holds, though " +
                          kLaunchers[launcher].name + " says " + other.variable + "=" + other.text);
}

void Inquiry::contradictions() {
  for (std::size_t l = 0; l < kLauncherCount; ++l) {
    if (l == chosen_) continue;
    const Said& rank = said_[l][kRank];
    const Said& world = said_[l][kWorld];
    const bool same_size = !world.value || *world.value == found_.world;
    if (world.value && (*world.value > found_.world || (rank.text == nullptr && !same_size))) {
      doubt(said_[chosen_][kWorld], found_.world, world, l);
    } else if (rank.text != nullptr && same_size && rank.value != found_.rank) {
      doubt(said_[chosen_][kRank], found_.rank, rank, l);
    } else if (const Said& local = said_[l][kLocalRank]; rank.text != nullptr && same_size &&
                                                         local.text != nullptr &&
                                                         local.value != found_.local_rank) {
      doubt(said_[chosen_][kLocalRank], found_.local_rank, local, l);
    }
  }
}

bool Inquiry::label(const char* variable, std::string* out) {
  const char* text = look(variable);
  if (text == nullptr) return false;
  if (!is_label_text(text)) refuse(variable, text);
  *out = text;
  return true;
}

void Inquiry::labels() {
  std::string* id = &found_.run_id;
  if (label("STEPGATE_RUN_ID", id)) return;
  if (label("TORCHELASTIC_RUN_ID", id) && *id != "none") return;
  id->clear();
  if (label("SLURM_JOB_ID", id)) {
    std::string step;
    if (label("SLURM_STEP_ID", &step)) *id += "." + step;
    return;
  }
  label("PMIX_NAMESPACE", id);
}

void Inquiry::count(const char* variable, std::optional<std::uint64_t>* out) {
  const char* text = look(variable);
  if (text == nullptr) return;
  *out = parse(text, false);
  if (!*out) refuse(variable, text);
}

void Inquiry::restarts() {
  count("TORCHELASTIC_RESTART_COUNT", &found_.torchelastic_restarts);
  count("SLURM_RESTART_COUNT", &found_.slurm_restarts);
}

}  // namespace

bool read_identity(const Environment& environment, JobIdentity* out, std::string* error) {
  Inquiry inquiry(environment);
  inquiry.numbers();
  inquiry.labels();
  inquiry.restarts();
  *error = inquiry.error();
  if (!error->empty()) return false;
  *out = std::move(inquiry.found());
  return true;
}

std::span<const char* const> identity_names() {
  return kNames;
}

std::string run_key(const JobIdentity& identity) {
  const auto number = [](const std::optional<std::uint64_t>& n) { return n ? std::to_string(*n) : "-"; };
  return identity.run_id + " restart " + number(identity.torchelastic_restarts) + "/" +
         number(identity.slurm_restarts);
}

}  // namespace stepgate::gate
