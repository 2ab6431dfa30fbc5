/* Bridge to OpenSSL 3, opened only where the metrics page is to speak TLS.
 *
 * Why it is there: civetweb opens "libssl.so" and "libcrypto.so" by these names, which a machine without
 * development packages does not have, and asks them for SSL_get_peer_certificate, which OpenSSL 3 does not
 * export: Debian's civetweb then calls address 0 at the first connection. Two small libraries with those
 * names, in a folder of their own, are linked to the real ones and add the missing function. Opened first,
 * they are what civetweb gets.
 *
 * Thread: any; OpenSSL locks. Ownership: the caller's, a context is closed after the server that uses it.
 * Nothing here is linked; functions are looked up by the names below.
 */
#pragma once

#include <stddef.h>

#define STEPGATE_TLS_SSL_NAME "libssl.so"
#define STEPGATE_TLS_CRYPTO_NAME "libcrypto.so"
#define STEPGATE_TLS_OPEN_NAME "stepgate_tls_open"
#define STEPGATE_TLS_CLOSE_NAME "stepgate_tls_close"

/* An SSL_CTX that serves the certificate, or NULL with the reason in text. With a context, a text that is
 * not empty is something to tell its owner. Both files are PEM; certificate may hold a chain. */
typedef void* (*stepgate_tls_open_function)(const char* certificate, const char* key, char* text,
                                            size_t size);
typedef void (*stepgate_tls_close_function)(void* context);
