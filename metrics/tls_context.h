// TlsContext: the certificate that the metrics page shows, ready for the HTTP server.
//
// Thread: any; open() and the destructor from the page's. Order: lives longer than the server that was
// given its handle. Lock: none. Ownership: the page. The libraries that it opens stay open.
#pragma once

#include <memory>
#include <string>

namespace stepgate::metrics {

class TlsContext {
 public:
  // folder: where the bridge lies (metrics/tls/bridge.h). nullptr: *error says which file or library and
  // what about it. *note: something about the certificate that its owner should know, else untouched.
  static std::unique_ptr<TlsContext> open(const std::string& folder, const std::string& certificate,
                                          const std::string& key, std::string* error, std::string* note);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  void* handle() const { return context_; }  // an SSL_CTX*

 private:
  using Close = void (*)(void*);
  TlsContext(void* context, Close close) : context_(context), close_(close) {}
  void* const context_;
  const Close close_;
};

}  // namespace stepgate::metrics
