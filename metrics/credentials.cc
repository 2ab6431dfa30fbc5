#include "metrics/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stepgate::metrics {
namespace {

constexpr std::size_t kLongest = 1024;  // of the line

struct File {
  std::string text;
  mode_t mode = 0;
};

bool read_text(const std::string& path, File* file, std::string* why) {
  // Not to wait for a writer, should it be a pipe.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  std::array<char, kLongest + 3> buffer{};
  ssize_t got = -1;
  if (fd >= 0 && fstat(fd, &info) == 0) got = read(fd, buffer.data(), buffer.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (got < 0) {
    *why = std::strerror(error);
    return false;
  }
  file->text.assign(buffer.data(), static_cast<std::size_t>(got));
  file->mode = info.st_mode;
  return true;
}

void cut_line_end(std::string* text) {
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
}

const char* fault_of(const std::string& line) {
  const std::size_t colon = line.find(':');
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (line.size() > kLongest) return "its line is longer than 1024 bytes";
  if (std::any_of(line.begin(), line.end(), control))
    return "it has more than one line, or control characters";
  if (colon == std::string::npos) return "its line has no colon";
  if (colon == 0) return "the user is empty";
  if (colon + 1 == line.size()) return "the password is empty";
  return nullptr;
}

// The length that is compared is the secret's, whatever was offered.
bool same(const std::string& secret, const std::string& offered) noexcept {
  unsigned difference = secret.size() == offered.size() ? 0 : 1;
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char c = i < offered.size() ? offered[i] : '\0';
    difference |= static_cast<unsigned char>(secret[i]) ^ static_cast<unsigned char>(c);
  }
  return difference == 0;
}

}  // namespace

std::optional<Credentials> Credentials::read(const std::string& path, std::string* error, std::string* note) {
  File file;
  std::string why;
  if (read_text(path, &file, &why)) {
    cut_line_end(&file.text);
    const char* fault = fault_of(file.text);
    if (fault == nullptr) {
      if ((file.mode & S_IROTH) != 0) {
        *note = absl::StrCat("metrics password file '", path, "' can be read by every user (mode ",
                             absl::Hex(file.mode >> 6 & 7), absl::Hex(file.mode >> 3 & 7),
                             absl::Hex(file.mode & 7), ")");
      }
      const std::size_t colon = file.text.find(':');
      return Credentials(file.text.substr(0, colon), file.text.substr(colon + 1));
    }
    why = absl::StrCat(fault, "; allowed: one line, user:password");
  }
  *error = absl::StrCat("metrics password file '", path, "': ", why);
  return std::nullopt;
}

bool Credentials::match(const std::string& user, const std::string& password) const noexcept {
  const bool right_user = same(user_, user);
  const bool right_password = same(password_, password);
  return right_user && right_password;
}

}  // namespace stepgate::metrics
