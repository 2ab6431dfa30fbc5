/* The built shared object, opened from plain C as hostnccl opens it: the table, a world of one rank, and
 * nothing else exported. Prints what is wrong and exits with 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "collectives/ucx/transport.h"

static int check(int condition, const char* what) {
  if (!condition) fprintf(stderr, "library_test: %s\n", what);
  return condition ? 0 : 1;
}

static int sum_alone(const sgt_table* t) {
  sgt_unique_id id;
  sgt_error error = {SGT_OK, -1, ""};
  sgt_options options = {sizeof(sgt_options), 30, "auto", NULL, NULL, NULL};
  sgt_world* world = NULL;
  sgt_op* op = NULL;
  double value = 2.5;
  int bad = 0;
  if (t->unique_id(&id, &error) != SGT_OK || t->world_create(&id, 0, 1, &options, &world, &error) != SGT_OK)
    return check(0, error.message);
  bad += check(t->world_rank(world) == 0 && t->world_size(world) == 1, "rank or size");
  bad += check(t->allreduce(world, &value, &value, 1, SGT_FLOAT64, SGT_SUM, &op, &error) == SGT_OK,
               error.message);
  bad += check(t->op_wait(op, &error) == SGT_OK && value == 2.5, "the sum of one rank is its value");
  t->op_release(op);
  t->world_destroy(world);
  return bad;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return check(0, dlerror());
  sgt_entry entry = NULL;
  *(void**)&entry = dlsym(library, SGT_ENTRY_NAME);
  if (entry == NULL) return check(0, "the entry is missing");
  int bad = check(entry(SGT_ABI_VERSION + 1) == NULL, "a table for an unknown version");
  const sgt_table* t = entry(SGT_ABI_VERSION);
  if (t == NULL) return check(0, "no table");
  bad += check(t->abi_version == SGT_ABI_VERSION && t->size == sizeof(sgt_table), "version or size");
  bad += check(strncmp(t->version(), "1.", 2) == 0, "UCX's version");
  return bad + sum_alone(t) != 0;
}
