#include "metrics/page_security.h"

namespace stepgate::metrics {
namespace {

void add_note(const std::string& note, std::string* notes) {
  if (note.empty()) return;
  if (!notes->empty()) *notes += "; ";
  *notes += note;
}

}  // namespace

bool PageSecurity::load(const ExpositionOptions& options, std::string* error, std::string* notes) {
  if (!options.auth_file.empty()) {
    std::string note;
    credentials = Credentials::read(options.auth_file, error, &note);
    if (!credentials) return false;
    add_note(note, notes);
  }
  if (options.tls_certificate.empty() && options.tls_key.empty()) return true;
  if (options.tls_certificate.empty()) {
    *error = "metrics private key '" + options.tls_key + "' has no certificate beside it";
    return false;
  }
  const std::string& key = options.tls_key.empty() ? options.tls_certificate : options.tls_key;
  std::string note;
  tls = TlsContext::open(options.tls_folder, options.tls_certificate, key, error, &note);
  add_note(note, notes);
  return tls != nullptr;
}

}  // namespace stepgate::metrics
