/* A driver that is none: two functions of many. */
__attribute__((visibility("default"))) int cuInit(unsigned flags) {
  return (int)flags;
}
__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
