// Debian's civetweb serving TLS by itself, without metrics/tls: asked for one page by curl. Its exit status
// is what the test looks at: 0 where it served, 40 to 42 where it could not be asked, else the process did
// not live through it.
#include <prometheus/exposer.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 40;
  try {
    const prometheus::Exposer server(std::vector<std::string>{
        "listening_ports", "127.0.0.1:0s", "num_threads", "1", "ssl_certificate", argv[1]});
    const std::string url =
        "https://127.0.0.1:" + std::to_string(server.GetListeningPorts().at(0)) + "/metrics";
    return std::system(("curl -q -sk --noproxy '*' --max-time 10 -o /dev/null " + url).c_str()) == 0 ? 0 : 41;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 42;
  }
}
