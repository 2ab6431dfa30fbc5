// The parts of page_text.h that talk to the system: processes, sockets, folders.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/metrics/page_text.h"

namespace stepgate::metrics::test {
namespace {

constexpr int kDeadlineSeconds = 20;

[[noreturn]] void become(const std::vector<char*>& argv, int in, int out) {
  dup2(in, 0);
  dup2(out, 1);
  dup2(out, 2);
  unsetenv("LD_PRELOAD");
  execvp(argv[0], argv.data());
  _exit(127);
}

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
}

std::string read_all(int fd) {
  std::string all;
  char buffer[4096];
  for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<std::size_t>(n));
  return all;
}

int exit_status(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int connect_to(const std::string& host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval deadline = {kDeadlineSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &where.sin_addr);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Outcome run_program(const std::vector<std::string>& words, const std::string& input) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // A file, not a pipe: a program that never reads its input cannot block the test.
  FILE* in = std::tmpfile();
  write_all(fileno(in), input);
  lseek(fileno(in), 0, SEEK_SET);
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  const pid_t child = fork();
  if (child == 0) become(argv, fileno(in), out[1]);
  close(out[1]);
  std::fclose(in);
  Outcome outcome;
  outcome.output = read_all(out[0]);
  close(out[0]);
  outcome.status = exit_status(child);
  return outcome;
}

Response http_get(const std::string& host, int port, const std::string& path) {
  const int fd = connect_to(host, port);
  if (fd < 0) return {};
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: " + host + "\r\n\r\n";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  const std::string answer = read_all(fd);
  close(fd);
  Response response;
  const std::size_t body = answer.find("\r\n\r\n");
  if (answer.rfind("HTTP/1.", 0) != 0 || body == std::string::npos) return response;
  response.status = std::atoi(answer.c_str() + 9);
  response.body = answer.substr(body + 4);
  return response;
}

Response http_get(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t port = url.find(':', host);
  const std::size_t path = url.find('/', host);
  return http_get(url.substr(host, port - host), port_of(url), url.substr(path));
}

int port_of(const std::string& url) {
  const std::size_t port = url.find(':', url.find("://") + 3);
  return port == std::string::npos ? 0 : std::atoi(url.c_str() + port + 1);
}

void hang_up(const std::string& url) {
  const int fd = connect_to("127.0.0.1", port_of(url));
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  const linger reset = {1, 0};  // answers what still comes with a reset
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(fd);
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stepgate-metrics-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TempDir::files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace stepgate::metrics::test
