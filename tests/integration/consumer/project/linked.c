/* The C API, linked: the library answers, is of the header's version, and a gate works. */
#include <stdio.h>
#include <stepgate/stepgate.h>
#include <string.h>

int main(void) {
  char expected[32];
  double scale = 0;
  stepgate_gate* gate = NULL;
  stepgate_gate_config config;
  sprintf(expected, "%d.%d.%d", STEPGATE_VERSION_MAJOR, STEPGATE_VERSION_MINOR, STEPGATE_VERSION_PATCH);
  if (strcmp(stepgate_version(), expected) != 0) return 1;
  if (stepgate_api_version() != STEPGATE_API_VERSION) return 2;
  memset(&config, 0, sizeof config);
  config.size = sizeof config;
  config.initial_scale = 1024;
  if (stepgate_gate_create(&config, &gate) != STEPGATE_OK) return 3;
  if (stepgate_scale(gate, &scale) != STEPGATE_OK || scale != 1024) return 4;
  config.backoff = 2;
  if (stepgate_gate_create(&config, &gate) != STEPGATE_INVALID) return 5;
  if (strstr(stepgate_last_error(), "backoff") == NULL) return 6;
  if (stepgate_gate_destroy(gate) != STEPGATE_OK) return 7;
  printf("linked %s\n", stepgate_version());
  return 0;
}
