/* A program without NCCL that opens local_user as an extension module is opened, and gives its
 * communicator to a gate where there is one:  local_host LIBRARY */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/client.h"

static int give_to_gate(void* comm) {
  stepgate_gate* gate = NULL;
  if (stepgate_client_load() != STEPGATE_OK) return 10;
  if (stepgate_client_gate_create(NULL, &gate) != STEPGATE_OK) return 11;
  if (stepgate_client_add_group(gate, comm, 0) != STEPGATE_OK) return 12;
  if (stepgate_client_enforce_begin(gate, NULL) != STEPGATE_OK) return 13;
  if (stepgate_client_step_begin(gate, NULL) != STEPGATE_OK) return 14;
  if (stepgate_client_step_end(gate, 0, NULL) != STEPGATE_OK) return 15;
  if (stepgate_client_step_wait(gate, 0, NULL) != STEPGATE_OK) return 16;
  if (stepgate_client_gate_destroy(gate) != STEPGATE_OK) return 17;
  return 0;
}

int main(int argc, char** argv) {
  int (*use_nccl)(int (*)(void*));
  void *library, *at;
  int result;
  if (argc != 2 || (library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) == NULL) {
    printf("cannot open the library: %s\n", argc == 2 ? dlerror() : "usage");
    return 1;
  }
  at = dlsym(library, "use_nccl");
  if (at == NULL) return 1;
  memcpy(&use_nccl, &at, sizeof use_nccl);
  result = use_nccl(give_to_gate);
  printf("result %d, %s\n", result, stepgate_client_last_error());
  return result;
}
