// Runs a program as a user would and keeps what it printed.
//
// Thread: any. Order: none. Lock: none. Ownership: Process kills and reaps what still runs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace stepgate::test {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal; -1 when the deadline passed and it was killed
  std::string out;
  std::string err;
};

class Process {
 public:
  Process(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  // On stdout so far.
  const std::string& printed() const { return outcome_.out; }
  // Reads until `text` has been printed on stdout. False at the deadline or the end.
  bool wait_for(const std::string& text, std::chrono::seconds deadline = std::chrono::seconds(60));
  // It has ended, and finish() would not wait.
  bool ended() const;
  Outcome finish(std::chrono::seconds deadline = std::chrono::seconds(60));

 private:
  bool read_once(std::chrono::steady_clock::time_point deadline);
  int reap(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  Outcome outcome_;
};

Outcome run(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables = {},
            std::chrono::seconds deadline = std::chrono::seconds(100));

// The programs of this build tree.
std::string command_path();
std::string charlm_path();

// A fresh folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<std::string> lines_of(const std::string& text);

}  // namespace stepgate::test
