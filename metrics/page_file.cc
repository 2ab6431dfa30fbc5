#include "metrics/page_file.h"

#include <fcntl.h>
#include <prometheus/text_serializer.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "metrics/label.h"

namespace stepgate::metrics {
namespace {

constexpr const char* kPageEnding = ".prom";
constexpr const char* kTargetEnding = ".json";

bool write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

constexpr std::size_t kLongestWord = 64;

std::string file_word(const std::string& text) {
  std::string word;
  for (const char c : text.substr(0, kLongestWord)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    word.push_back(plain ? c : '-');
  }
  if (text.size() > kLongestWord) word += "-" + short_hash(text);
  return word.empty() ? "none" : word;
}

std::string path_of(const std::string& dir, const Identity& who, const char* ending) {
  return absl::StrCat(dir, "/stepgate_", file_word(who.job_name), "_", file_word(who.run_id), "_rank",
                      who.rank, ending);
}

// Labels that say whose series these are, in the order of the documentation.
using Pairs = std::vector<std::pair<std::string, std::string>>;
Pairs labels_of(const Identity& who) {
  return {{"rank", std::to_string(who.rank)},
          {"local_rank", std::to_string(who.local_rank)},
          {"host", label_text(who.host)},
          {"job_name", label_text(who.job_name)},
          {"run_id", label_text(who.run_id)}};
}

std::string json_text(const std::string& text) {
  return nlohmann::json(label_text(text)).dump();
}

// As it stands in a page: what the text format escapes, escaped.
std::string page_text(const std::string& text) {
  std::string out;
  for (const char c : label_text(text)) {
    if (c == '\\' || c == '"') out.push_back('\\');
    if (c == '\n') {
      out += "\\n";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// A series may have one of these labels of its own (stepgate_job_info does); twice would be no page.
void add_labels(const Pairs& labels, prometheus::ClientMetric* metric) {
  const std::size_t own = metric->label.size();
  for (const auto& [name, value] : labels) {
    bool there = value.empty();
    for (std::size_t i = 0; i < own; ++i) there = there || metric->label[i].name == name;
    if (!there) metric->label.push_back({name, value});
  }
}

bool failed(const char* what, const std::string& path, std::string* error) {
  *error = absl::StrCat("cannot ", what, " '", path, "': ", std::strerror(errno));
  return false;
}

}  // namespace

bool replace_file(const std::string& path, const std::string& text, HeldFile* held, std::string* error) {
  // The ending is the temporary's own, so that nobody who looks for .prom or .json picks it up, and the name
  // the thread's: two may write one path at the same time, and then the later rename holds.
  const std::string temporary = absl::StrCat(path, ".", gettid(), ".tmp");
  // What lies there is a dead process's, or a trap in a folder that others may write to.
  unlink(temporary.c_str());
  HeldFile file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (file.fd() < 0) return failed("create", temporary, error);
  // Without locks, as on some network file systems, nobody sweeps either.
  static_cast<void>(flock(file.fd(), LOCK_EX | LOCK_NB));
  const bool written = write_all(file.fd(), text);
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) {
    *held = std::move(file);
    return true;
  }
  failed(written ? "rename to" : "write", path, error);
  unlink(temporary.c_str());
  return false;
}

std::string textfile_path(const std::string& dir, const Identity& who) {
  return path_of(dir, who, kPageEnding);
}

std::string target_path(const std::string& dir, const Identity& who) {
  return path_of(dir, who, kTargetEnding);
}

std::string textfile_page(std::vector<prometheus::MetricFamily> families, const Identity& who) {
  const Pairs labels = labels_of(who);
  for (prometheus::MetricFamily& family : families) {
    for (prometheus::ClientMetric& metric : family.metric) add_labels(labels, &metric);
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string target_json(const Identity& who, const std::string& target, const std::string& scheme) {
  nlohmann::ordered_json labels;
  for (const auto& [name, value] : labels_of(who)) labels[name] = value;
  // Prometheus takes it from here, whatever its scrape job says, and keeps it from the series.
  if (scheme != "http") labels["__scheme__"] = scheme;
  nlohmann::ordered_json entry;
  entry["targets"] = {target};
  entry["labels"] = labels;
  return nlohmann::ordered_json::array({entry}).dump(2) + "\n";
}

void sweep_textfiles(const std::string& dir, const Identity& who) {
  if (dir.empty() || who.host.empty()) return;
  sweep_stale_files(dir, kPageEnding, absl::StrCat("host=\"", page_text(who.host), "\""));
}

void sweep_targets(const std::string& dir, const Identity& who) {
  if (dir.empty() || who.host.empty()) return;
  sweep_stale_files(dir, kTargetEnding, absl::StrCat("\"host\": ", json_text(who.host)));
}

std::unique_ptr<TargetFile> TargetFile::write(const std::string& dir, const Identity& who,
                                              const std::string& target, const std::string& scheme,
                                              std::string* error) {
  const std::string path = target_path(dir, who);
  HeldFile held;
  if (!replace_file(path, target_json(who, target, scheme), &held, error)) return nullptr;
  return std::unique_ptr<TargetFile>(new TargetFile(path, std::move(held)));
}

TargetFile::TargetFile(std::string path, HeldFile held)
    : path_(std::move(path)), held_(std::move(held)), owner_(getpid()) {}

TargetFile::~TargetFile() {
  // Another process of the same job, run and rank may have put its own there meanwhile.
  if (getpid() == owner_) remove_if_same(held_.fd(), path_);
}

}  // namespace stepgate::metrics
