// Credentials: the one user and password that a metrics page asks for. They come from a file, so that
// neither a command line nor an environment nor a log ever holds them.
//
// Thread: read() from one; match() from any. Lock: none. Ownership: a value.
#pragma once

#include <optional>
#include <string>

namespace stepgate::metrics {

class Credentials {
 public:
  // The file's one line is user:password. Empty: *error names the file and what is wrong with it, never
  // what it holds. *note: that others can read it, else untouched.
  static std::optional<Credentials> read(const std::string& path, std::string* error, std::string* note);

  // Takes the same time wherever the difference is.
  bool match(const std::string& user, const std::string& password) const noexcept;

 private:
  Credentials(std::string user, std::string password)
      : user_(std::move(user)), password_(std::move(password)) {}
  std::string user_;
  std::string password_;
};

}  // namespace stepgate::metrics
