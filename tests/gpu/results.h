// What a GPU program found: one line of a tab-separated file per check or figure, which summary.cc turns
// into the table and the JSON.
//
// Thread: one. Order: none. Lock: none. Ownership: the file is closed with the object; a line is complete
// once it is written, so that a program that dies loses nothing it has said.
#pragma once

#include <cstdio>
#include <string>

namespace stepgate::gpu {

class Results {
 public:
  // Appends to the file. `part` stands in front of every line.
  Results(const std::string& path, std::string part);
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  // A property that holds or does not. `problem` is empty where it holds.
  void check(const std::string& name, const std::string& problem);
  // A figure with a goal: at most `goal`. Figures of a stand-in say nothing and are never judged.
  void at_most(const std::string& name, double value, double goal, const std::string& note);
  // A figure that others are measured by.
  void figure(const std::string& name, double value, const std::string& unit);
  void skipped(const std::string& name, const std::string& why);

  // Speeds of the CPU stand-in are not judged.
  void without_speeds() { speeds_count_ = false; }
  bool failed() const { return failed_; }

 private:
  void line(const char* state, const std::string& name, const std::string& value, const std::string& goal,
            const std::string& note);

  std::FILE* file_;
  std::string part_;
  bool speeds_count_ = true;
  bool failed_ = false;
};

}  // namespace stepgate::gpu
