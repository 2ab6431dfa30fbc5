/* The header-only client: without the plugin, then with the one that this program opens itself.
 *
 *   client PLUGIN     a path; "-" where LD_PRELOAD has brought the plugin already */
#include <stdio.h>
#include <stepgate/client.h>
#include <string.h>

int main(int argc, char** argv) {
  stepgate_gate* gate = NULL;
  double scale = 0;
  if (argc != 2) return 1;
  if (strcmp(argv[1], "-") != 0) {
    if (stepgate_client_load() != STEPGATE_NO_PLUGIN) return 2;
    if (stepgate_client_gate_create(NULL, &gate) != STEPGATE_NO_PLUGIN) return 3;
    if (dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
      printf("%s\n", dlerror());
      return 4;
    }
  }
  if (stepgate_client_load() != STEPGATE_OK) return 5;
  if (stepgate_client_gate_create(NULL, &gate) != STEPGATE_OK) return 6;
  if (stepgate_client_scale(gate, &scale) != STEPGATE_OK || scale <= 0) return 7;
  if (stepgate_client_gate_destroy(gate) != STEPGATE_OK) return 8;
  printf("client %s\n", stepgate_client_version());
  return 0;
}
