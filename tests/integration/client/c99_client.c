/* The client from plain C99: what a job without the plugin sees. */
#include <stepgate/client.h>

int c99_client_without_plugin(void) {
  double fields[STEPGATE_ACTIVATION_FIELDS];
  double scale = 42;
  stepgate_gate* gate = NULL;
  int i;
  for (i = 0; i < STEPGATE_ACTIVATION_FIELDS; ++i) fields[i] = 7;
  if (stepgate_client_load() != STEPGATE_NO_PLUGIN) return 1;
  if (stepgate_client_gate_create(NULL, &gate) != STEPGATE_NO_PLUGIN || gate != NULL) return 2;
  if (stepgate_client_scale(gate, &scale) != STEPGATE_NO_PLUGIN || scale != 42) return 3;
  if (stepgate_client_enforce_summarize(gate, NULL, fields) != STEPGATE_NO_PLUGIN) return 4;
  for (i = 0; i < STEPGATE_ACTIVATION_FIELDS; ++i) {
    if (fields[i] != 0) return 5;
  }
  return 0;
}
