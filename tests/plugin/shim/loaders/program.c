/* A program that is linked to NCCL plainly (with LOADER_LINKED), or that loads libraries:
 *
 *   loader_program linked                 use_nccl() of its own
 *   loader_program local|deepbind LIB...  opens each library so and calls its use_nccl()
 *   loader_program wrapper LIB OTHER      opens both, calls LIB's wrapped_split() with no communicator, and
 * then OTHER's use_nccl()
 *
 * With LOADER_PAUSE in the environment it then says "paused" and waits for a signal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LOADER_LINKED
int use_nccl(void);
#endif

static void* function_of(const char* path, int flags, const char* name) {
  void* library = dlopen(path, RTLD_NOW | flags);
  void* at = library != NULL ? dlsym(library, name) : NULL;
  if (at == NULL) {
    printf("failed: %s\n", dlerror());
    exit(1);
  }
  return at;
}

static int call(const char* path, int flags, const char* name) {
  int (*function)(void);
  void* at = function_of(path, flags, name);
  memcpy(&function, &at, sizeof function);
  return function();
}

static void split(const char* path) {
  int (*function)(void*);
  void* at = function_of(path, RTLD_LOCAL, "wrapped_split");
  memcpy(&function, &at, sizeof function);
  printf("split %d\n", function(NULL));
}

static int run(int argc, char** argv) {
  int i, failed = 0;
#ifdef LOADER_LINKED
  if (strcmp(argv[1], "linked") == 0) return use_nccl();
#endif
  if (strcmp(argv[1], "wrapper") == 0) {
    function_of(argv[3], RTLD_LOCAL, "use_nccl");
    split(argv[2]);
    return call(argv[3], RTLD_LOCAL, "use_nccl");
  }
  for (i = 2; i < argc; ++i) {
    failed |= call(argv[i], strcmp(argv[1], "deepbind") == 0 ? RTLD_DEEPBIND : RTLD_LOCAL, "use_nccl");
  }
  return failed;
}

int main(int argc, char** argv) {
  int failed;
  alarm(100);
  if (argc < 2) return 2;
  failed = run(argc, argv);
  if (getenv("LOADER_PAUSE") != NULL) {
    puts("paused");
    fflush(stdout);
    pause();
  }
  return failed;
}
