#include "plugin/core/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/core/config_names.h"

namespace stepgate::gate {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::string_view kPrefix = "STEPGATE_";
constexpr char kAllowedLine[] = "NAME = value, an empty line, or a comment that begins with #";

std::string_view trimmed(std::string_view s) {
  const std::size_t first = s.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(kBlanks) - first + 1);
}

bool is_name(std::string_view s) {
  return !s.empty() && s.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string_view::npos;
}

// What follows a blank and # is a comment.
std::string_view without_comment(std::string_view s) {
  for (std::size_t at = s.find('#'); at != std::string_view::npos; at = s.find('#', at + 1)) {
    if (at == 0 || kBlanks.find(s[at - 1]) != std::string_view::npos) return s.substr(0, at);
  }
  return s;
}

// The value without quotes and comment; false where quotes do not close, or something follows them.
bool take_value(std::string_view s, std::string* out) {
  s = trimmed(s);
  if (!s.starts_with('"')) {
    *out = trimmed(without_comment(s));
    return true;
  }
  const std::size_t end = s.find('"', 1);
  if (end == std::string_view::npos || !trimmed(without_comment(s.substr(end + 1))).empty()) return false;
  *out = s.substr(1, end - 1);
  return true;
}

class Parser {
 public:
  Parser(const std::string& path, std::string* error) : path_(path), error_(error) {}

  bool line(std::string_view text) {
    ++number_;
    text = trimmed(text);
    if (text.empty() || text.starts_with('#')) return true;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) return refuse(text, kAllowedLine);
    const std::string name(trimmed(text.substr(0, equals)));
    if (!is_name(name)) return refuse(text, kAllowedLine);
    std::string value;
    if (!take_value(text.substr(equals + 1), &value)) {
      return refuse(text, "a value in double quotes ends with the second one, and a comment at most follows");
    }
    return name_allowed(name, text) && add(name, std::move(value), text);
  }

  ConfigFile take() { return std::move(file_); }

 private:
  // Settings of a job go into a file that its ranks share; what tells ranks apart, and the file's own name,
  // do not.
  bool name_allowed(const std::string& name, std::string_view text) {
    if (!name.starts_with(kPrefix)) {
      return refuse(text,
                    "names that begin with STEPGATE_; ranks and sizes come from each process's environment");
    }
    if (name == "STEPGATE_CONFIG") return refuse(text, "any other name: a file does not name another one");
    if (is_hostnccl_name(name)) return refuse(text, "this name in the environment, where hostnccl reads it");
    return true;
  }

  bool add(const std::string& name, std::string value, std::string_view text) {
    const std::string nearest = nearest_known_name(name);
    if (!nearest.empty()) {
      file_.unknown.push_back(where() + ": nothing reads " + name + "; the nearest known name is " + nearest);
    }
    const auto [at, fresh] = file_.values.try_emplace(name, ConfigFile::Value{std::move(value), where()});
    return fresh || refuse(text, "each name once; " + name + " stands at " + at->second.where + " already");
  }

  std::string where() const { return path_ + ":" + std::to_string(number_); }

  // Without the value: the file may be another program's, and hold its secrets.
  bool refuse(std::string_view text, const std::string& allowed) {
    const std::size_t equals = text.find('=');
    const std::string_view name = trimmed(text.substr(0, equals));
    const bool named = equals != std::string_view::npos && is_name(name);
    *error_ = where() + ": " + (named ? std::string(name.substr(0, 100)) + "=..." : "this line") +
              " is refused; allowed: " + allowed;
    return false;
  }

  const std::string& path_;
  std::string* error_;
  ConfigFile file_;
  int number_ = 0;
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

bool read_all(int fd, std::string* out) {
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    out->append(buffer, static_cast<std::size_t>(n));
    if (out->size() > kMaxConfigFileBytes) {
      errno = EFBIG;
      return false;
    }
  }
}

}  // namespace

bool parse_config_file(std::string_view text, const std::string& path, ConfigFile* out, std::string* error) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.find('\0') != std::string_view::npos) {
    *error = path + ": it holds a zero byte; allowed: text";
    return false;
  }
  Parser parser(path, error);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (!parser.line(text.substr(0, end))) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  *out = parser.take();
  return true;
}

bool read_config_file(const std::string& path, ConfigFile* out, std::string* error) {
  // Not to hang on a pipe that nobody writes to.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  std::string text;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    *error = path + ": " + std::strerror(errno);
    return false;
  }
  if (!S_ISREG(info.st_mode)) {
    *error = path + ": not a regular file";
    return false;
  }
  if (!read_all(file.get(), &text)) {
    *error = path + ": " + std::strerror(errno);
    return false;
  }
  return parse_config_file(text, path, out, error);
}

}  // namespace stepgate::gate
