#include "metrics/tls_context.h"

#include <civetweb.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "metrics/tls/bridge.h"

namespace stepgate::metrics {
namespace {

// OpenSSL's own words about a file that it cannot open name no file.
bool readable(const char* what, const std::string& path, std::string* error) {
  // Not to hang on a pipe that nobody writes to.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat info {};
  const bool opened = fd >= 0 && fstat(fd, &info) == 0;
  const bool regular = opened && S_ISREG(info.st_mode);
  if (!regular) {
    *error = absl::StrCat(what, " '", path, "': ", opened ? "not a regular file" : std::strerror(errno));
  }
  if (fd >= 0) close(fd);
  return regular;
}

// The library of the bridge, as the one that the server will get when it asks for that name. Another one
// of that name, which the job has brought, would be mixed with ours: no TLS then.
void* open_stand_in(const std::string& folder, const char* name, std::string* error) {
  const std::string path = absl::StrCat(folder, "/", name);
  void* mine = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (mine == nullptr) {
    const char* reason = dlerror();
    *error = absl::StrCat("TLS cannot be had: ", reason != nullptr ? reason : path.c_str());
    return nullptr;
  }
  void* found = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (found != nullptr) dlclose(found);
  if (found == mine) return mine;
  *error = absl::StrCat("TLS cannot be had: this process has loaded another ", name,
                        ", which the HTTP server would use");
  return nullptr;
}

bool server_can(std::string* error) {
  if (mg_check_feature(MG_FEATURES_TLS) != 0) return true;
  *error = "TLS cannot be had: this machine's civetweb is built without it";
  return false;
}

}  // namespace

std::unique_ptr<TlsContext> TlsContext::open(const std::string& folder, const std::string& certificate,
                                             const std::string& key, std::string* error, std::string* note) {
  if (!readable("metrics certificate", certificate, error)) return nullptr;
  if (!readable("metrics private key", key, error) || !server_can(error)) return nullptr;
  if (open_stand_in(folder, STEPGATE_TLS_CRYPTO_NAME, error) == nullptr) return nullptr;
  void* bridge = open_stand_in(folder, STEPGATE_TLS_SSL_NAME, error);
  if (bridge == nullptr) return nullptr;
  const auto make = reinterpret_cast<stepgate_tls_open_function>(dlsym(bridge, STEPGATE_TLS_OPEN_NAME));
  const auto end = reinterpret_cast<stepgate_tls_close_function>(dlsym(bridge, STEPGATE_TLS_CLOSE_NAME));
  if (make == nullptr || end == nullptr) {
    *error = absl::StrCat("TLS cannot be had: ", folder, "/", STEPGATE_TLS_SSL_NAME, " is of another build");
    return nullptr;
  }
  std::array<char, 1024> text{};
  void* context = make(certificate.c_str(), key.c_str(), text.data(), text.size());
  std::string* const where = context == nullptr ? error : note;
  if (text[0] != '\0') *where = absl::StrCat("metrics certificate: ", text.data());
  if (context == nullptr) return nullptr;
  return std::unique_ptr<TlsContext>(new TlsContext(context, end));
}

TlsContext::~TlsContext() {
  close_(context_);
}

}  // namespace stepgate::metrics
