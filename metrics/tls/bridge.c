#include "metrics/tls/bridge.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

/* OpenSSL 3 has this name as a macro only. */
#undef SSL_get_peer_certificate
EXPORT X509* SSL_get_peer_certificate(const SSL* ssl);
EXPORT void* stepgate_tls_open(const char* certificate, const char* key, char* text, size_t size);
EXPORT void stepgate_tls_close(void* context);

X509* SSL_get_peer_certificate(const SSL* ssl) {
  return SSL_get1_peer_certificate(ssl);
}

/* A key with a pass phrase is an error; without this OpenSSL would ask for it on the job's terminal. */
static int no_pass_phrase(char* buffer, int size, int writing, void* data) {
  (void)buffer, (void)size, (void)writing, (void)data;
  return -1;
}

static void* refuse(SSL_CTX* context, const char* what, const char* file, char* text, size_t size) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  snprintf(text, size, "'%s' holds no %s (%s)", file, what, reason != NULL ? reason : "unknown reason");
  ERR_clear_error();
  SSL_CTX_free(context);
  return NULL;
}

static void note_dates(SSL_CTX* context, const char* certificate, char* text, size_t size) {
  const X509* x = SSL_CTX_get0_certificate(context);
  if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0) {
    snprintf(text, size, "'%s' has expired", certificate);
  } else if (X509_cmp_current_time(X509_get0_notBefore(x)) > 0) {
    snprintf(text, size, "'%s' is not valid yet", certificate);
  }
}

void* stepgate_tls_open(const char* certificate, const char* key, char* text, size_t size) {
  text[0] = '\0';
  /* Threads of the server may outlive OpenSSL's own clean-up at exit, so there is none. It counts only
   * where nobody in this process has used OpenSSL before. */
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
  ERR_clear_error();
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (context == NULL)
    return refuse(context, "certificate that OpenSSL has room for", certificate, text, size);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
  if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1) {
    return refuse(context, "PEM certificate that can be used", certificate, text, size);
  }
  if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    return refuse(context, "PEM private key without a pass phrase that fits the certificate", key, text,
                  size);
  }
  note_dates(context, certificate, text, size);
  ERR_clear_error();
  return context;
}

void stepgate_tls_close(void* context) {
  SSL_CTX_free(context);
}
