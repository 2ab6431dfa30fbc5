/* A program that knows neither NCCL nor StepGate. It prints what its process holds:
 *
 *   bare          threads, open descriptors, and which of StepGate's objects are mapped
 *   bare probe    the same after it found and called an NCCL symbol that only the preload offers
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int entries(const char* folder) {
  DIR* d = opendir(folder);
  int n = 0;
  struct dirent* e;
  if (d == NULL) return -1;
  while ((e = readdir(d)) != NULL) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static int mapped(const char* name) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  int found = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  if (maps != NULL) fclose(maps);
  return found;
}

static void probe(void) {
  int (*group_start)(void);
  void* at = dlsym(NULL, "ncclGroupStart");
  if (at == NULL) {
    puts("no ncclGroupStart");
    return;
  }
  memcpy(&group_start, &at, sizeof group_start);
  printf("ncclGroupStart %d\n", group_start());
  printf("ncclGroupStart %d\n", group_start());
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "probe") == 0) probe();
  printf("threads %d\n", entries("/proc/self/task"));
  printf("descriptors %d\n", entries("/proc/self/fd"));
  printf("shim %d\n", mapped("/libstepgate.so"));
  printf("core %d\n", mapped("libstepgate_core.so"));
  printf("ucx %d\n", mapped("libstepgate_ucx.so"));
  printf("nccl %d\n", mapped("libnccl.so"));
  return 0;
}
