/* A program that opens the plugin by hand, uses it, closes it, and goes on:
 *
 *   closed LIBRARY      closes before first use, then after a gate and its page; calls what it still holds */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "stepgate/stepgate.h"

typedef stepgate_status (*create_function)(const stepgate_gate_config*, stepgate_gate**);
typedef stepgate_status (*destroy_function)(stepgate_gate*);
typedef stepgate_status (*url_function)(char*, size_t);

static void* must(void* pointer, const char* what) {
  if (pointer == NULL) printf("failed: %s\n", what);
  return pointer;
}

/* Object and function pointers have one size here. */
#define TAKE(function, handle, name)             \
  do {                                           \
    void* at_ = must(dlsym(handle, name), name); \
    if (at_ == NULL) return 1;                   \
    memcpy(&(function), &at_, sizeof at_);       \
  } while (0)

int main(int argc, char** argv) {
  create_function create;
  destroy_function destroy;
  url_function url;
  stepgate_gate *gate = NULL, *second = NULL;
  char page[200] = "", again[200] = "";
  void* handle;
  if (argc != 2) return 2;
  handle = must(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "first dlopen");
  if (handle == NULL || dlclose(handle) != 0) return 1;
  handle = must(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "second dlopen");
  if (handle == NULL) return 1;
  TAKE(create, handle, "stepgate_gate_create");
  TAKE(destroy, handle, "stepgate_gate_destroy");
  TAKE(url, handle, "stepgate_metrics_url");
  printf("create %d\n", create(NULL, &gate));
  printf("url %d\n", url(page, sizeof page));
  printf("close %d\n", dlclose(handle));
  printf("create %d\n", create(NULL, &second));
  printf("destroy %d\n", destroy(gate));
  printf("url %d\n", url(again, sizeof again));
  printf("same %d\n", strcmp(page, again) == 0 && page[0] != '\0');
  return 0;
}
