#include "metrics/page_file.h"

#include <fcntl.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {
namespace {

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

std::string file_word(const std::string& text) {
  std::string word;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    word.push_back(plain ? c : '-');
  }
  return word.empty() ? "none" : word;
}

bool failed(const char* what, const std::string& path, std::string* error) {
  *error = absl::StrCat("cannot ", what, " '", path, "': ", std::strerror(errno));
  return false;
}

}  // namespace

bool replace_file(const std::string& path, const std::string& text, std::string* error) {
  // The ending is the temporary's own, so that nobody who looks for .prom or .json picks it up.
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return failed("create", temporary, error);
  const bool written = write_all(fd, text);
  const bool closed = close(fd) == 0;
  if (written && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  failed(written && closed ? "rename to" : "write", path, error);
  unlink(temporary.c_str());
  return false;
}

std::string textfile_path(const std::string& dir, int rank) {
  return absl::StrCat(dir, "/stepgate_rank", rank, ".prom");
}

std::string textfile_page(std::vector<prometheus::MetricFamily> families, int rank) {
  for (prometheus::MetricFamily& family : families) {
    for (prometheus::ClientMetric& metric : family.metric) {
      metric.label.push_back({"rank", std::to_string(rank)});
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

std::string target_path(const std::string& dir, const Identity& who) {
  return absl::StrCat(dir, "/stepgate_", file_word(who.job_name), "_", file_word(who.run_id), "_rank",
                      who.rank, ".json");
}

std::string target_json(const Identity& who, const std::string& target) {
  const nlohmann::ordered_json labels = {{"rank", std::to_string(who.rank)},
                                         {"local_rank", std::to_string(who.local_rank)},
                                         {"host", who.host},
                                         {"job_name", who.job_name},
                                         {"run_id", who.run_id}};
  nlohmann::ordered_json entry;
  entry["targets"] = {target};
  entry["labels"] = labels;
  // Names from outside may not be UTF-8: replaced, since a throw here would lose the whole file.
  return nlohmann::ordered_json::array({entry}).dump(2, ' ', false,
                                                     nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::unique_ptr<TargetFile> TargetFile::write(const std::string& dir, const Identity& who,
                                              const std::string& target, std::string* error) {
  const std::string path = target_path(dir, who);
  if (!replace_file(path, target_json(who, target), error)) return nullptr;
  return std::unique_ptr<TargetFile>(new TargetFile(path));
}

TargetFile::TargetFile(std::string path) : path_(std::move(path)), owner_(getpid()) {}

TargetFile::~TargetFile() {
  if (getpid() == owner_) unlink(path_.c_str());
}

}  // namespace stepgate::metrics
