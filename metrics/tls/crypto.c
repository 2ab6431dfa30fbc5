/* The library that bridge.h speaks of under the name libcrypto.so: it stands for the one it is linked to. */
extern const int stepgate_tls_crypto;
const int stepgate_tls_crypto __attribute__((visibility("default"))) = 3;
