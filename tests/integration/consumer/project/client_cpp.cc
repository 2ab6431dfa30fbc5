// The client from C++11, without the plugin.
#include <stepgate/client.h>

#include <cstdio>

int main() {
  double fields[STEPGATE_ACTIVATION_FIELDS] = {1};
  if (stepgate_client_enforce_summarize(nullptr, nullptr, fields) != STEPGATE_NO_PLUGIN) return 1;
  if (fields[0] != 0) return 2;
  std::puts("client of C++");
  return 0;
}
