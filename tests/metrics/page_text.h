// What tests need of a page's text, and of the programs that judge one.
//
// Thread: any. No state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace stepgate::metrics::test {

// Samples by their name with labels in alphabetical order: `a_total{kind="x",phase="y"}` to the value's text.
using Samples = std::map<std::string, std::string>;
Samples samples(const std::string& page);
// The value, or "absent".
std::string sample(const std::string& page, const std::string& name_and_labels);
// True when the family is on the page at all.
bool has_family(const std::string& page, const std::string& family);
// The page with the series of each family in alphabetical order (prometheus-cpp hashes them).
std::string in_order(const std::string& page);

struct Outcome {
  int status = -1;     // exit status; 128 + signal
  std::string output;  // both streams
};
// Runs argv[0] from PATH with `input` on its stdin, without a preloaded sanitizer runtime. A program
// that is not there is status 127.
Outcome run_program(const std::vector<std::string>& argv, const std::string& input);

struct Response {
  int status = 0;  // 0: no answer within the deadline
  std::string body;
};
Response http_get(const std::string& host, int port, const std::string& path);
// Of a whole "http://host:port/path".
Response http_get(const std::string& url);
int port_of(const std::string& url);
// Asks for a page and closes the connection without reading the answer.
void hang_up(const std::string& url);

// A folder of its own under the system's temporary one, removed with all that is in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const;  // names, sorted
 private:
  std::string path_;
};
std::string read_file(const std::string& path);  // "" where there is none

}  // namespace stepgate::metrics::test
