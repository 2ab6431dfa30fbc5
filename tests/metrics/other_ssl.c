/* A library of that name which is not OpenSSL's bridge. */
int other_ssl(void);
__attribute__((visibility("default"))) int other_ssl(void) {
  return 1;
}
