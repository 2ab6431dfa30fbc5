// Reading option values: each error names the option, the value and what is allowed.
//
// Thread: any. Order, lock: none. Ownership: views point into argv.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepgate::command {

// A wrong command line. main() prints it and returns kUsageStatus.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
inline constexpr int kUsageStatus = 2;

// Walks over the words of a command line: "--name value" and "--name=value" alike.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string_view> words) : words_(std::move(words)) {}

  bool done() const { return next_ == words_.size(); }
  // The next word is an option (and not "--").
  bool at_option() const;
  // Takes the next word; of "--name=value" the name, and the value waits for value().
  std::string_view take();
  // The value of the option that take() returned.
  std::string_view value();
  // Throws when "--name=value" gave a value to an option that has none.
  void no_value() const;
  std::vector<std::string_view> rest();

 private:
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
  std::string_view option_;
  std::string_view attached_;
  bool has_attached_ = false;
};

// The whole text is a number, else UsageError. Independent of the locale.
double parse_number(std::string_view option, std::string_view text);
std::uint64_t parse_count(std::string_view option, std::string_view text, std::uint64_t low,
                          std::uint64_t high);

[[noreturn]] void bad_value(std::string_view option, std::string_view text, std::string_view allowed);

}  // namespace stepgate::command
