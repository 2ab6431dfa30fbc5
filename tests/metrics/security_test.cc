// Who may read the page, and over what: passwords, certificates, and what is said when either is no good.
#include <civetweb.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "metrics/http_page.h"
#include "metrics/page_file.h"
#include "tests/metrics/ordinary_user.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

using Words = std::vector<std::string>;

std::string put(const TempDir& dir, const std::string& name, const std::string& text, mode_t mode = 0600) {
  std::string path = dir.path() + "/" + name;
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

// A self-signed certificate for 127.0.0.1 and its key, in two files and in one.
struct Identity127 {
  explicit Identity127(const TempDir& dir, const std::string& name = "page")
      : certificate(dir.path() + "/" + name + ".crt"),
        key(dir.path() + "/" + name + ".key"),
        both(dir.path() + "/" + name + ".pem") {
    const Outcome made =
        run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                     "-nodes", "-days", "2", "-subj", "/CN=stepgate test", "-addext",
                     "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate},
                    "");
    EXPECT_EQ(made.status, 0) << made.output;
    put(dir, name + ".pem", read_file(certificate) + read_file(key));
  }
  std::string certificate, key, both;
};

ExpositionOptions any_port() {
  ExpositionOptions options;
  options.first_port = 0;
  options.tls_folder = STEPGATE_TEST_TLS_FOLDER;
  return options;
}

struct Served {
  std::string said;
  FakeSource source;
  std::unique_ptr<Publisher> publisher;  // looks at the source a last time
};

std::unique_ptr<Served> serve(const ExpositionOptions& exposition) {
  auto opened = std::make_unique<Served>();
  PublisherOptions options = quiet_options();
  options.exposition = exposition;
  options.log = [o = opened.get()](std::string_view line) { o->said += std::string(line) + "\n"; };
  opened->source.set_enforcing(true);
  opened->source.push(applied(1));
  opened->publisher = std::make_unique<Publisher>(std::move(options));
  opened->publisher->add_source(&opened->source);
  opened->publisher->poll_once();
  return opened;
}

// curl, and nothing that it would read from the user's own configuration.
Outcome curl(const std::string& url, const Words& more = {}) {
  Words words = {"curl", "-q", "-sS", "--max-time", "20", "--noproxy", "*"};
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(url);
  return run_program(words, "");
}
std::string http_code(const std::string& url, Words more = {}) {
  more.insert(more.end(), {"-o", "/dev/null", "-w", "%{http_code}"});
  return curl(url, more).output;
}

TEST(Auth, WithoutTheRightPasswordNothingIsShown) {
  TempDir dir;
  ExpositionOptions options = any_port();
  options.auth_file = put(dir, "auth", "prometheus:s3cret:with colon\n");
  const auto opened = serve(options);
  const std::string url = opened->publisher->url();
  EXPECT_EQ(opened->said, "");
  EXPECT_EQ(http_code(url), "401");
  EXPECT_EQ(http_code(url, {"-u", "prometheus:wrong"}), "401");
  EXPECT_EQ(http_code(url, {"-u", "prometheus:s3cret"}), "401");
  EXPECT_EQ(http_code(url, {"-u", "prometheus:s3cret:with colon2"}), "401");
  EXPECT_EQ(http_code(url, {"-u", "other:s3cret:with colon"}), "401");
  EXPECT_EQ(http_code(url, {"-u", "prometheus:"}), "401");
  // Of the right length, so that nothing but the bytes can tell.
  EXPECT_EQ(http_code(url, {"-u", "prometheus:s3cret:with colom"}), "401");
  EXPECT_EQ(http_code(url, {"-u", "prometheuz:s3cret:with colon"}), "401");
  EXPECT_EQ(curl(url, {"-u", "prometheus:wrong"}).output.find("stepgate_"), std::string::npos);
  const Outcome page = curl(url, {"-u", "prometheus:s3cret:with colon"});
  EXPECT_EQ(sample(page.output, "stepgate_steps_total"), "1") << page.output;
  EXPECT_NE(curl(url, {"-i"}).output.find("WWW-Authenticate: Basic"), std::string::npos);
}

// Whatever comes in that header, the process lives and the page stays closed.
TEST(Auth, HeadersOfAnyKindAreRefusedAndSurvived) {
  TempDir dir;
  ExpositionOptions options = any_port();
  options.auth_file = put(dir, "auth", "u:p");
  const auto opened = serve(options);
  const std::string url = opened->publisher->url();
  for (const char* value : {"Basic", "Basic ", "Basic !!!!", "Basic =", "Basic ====", "Basic dTpw=",
                            "Basic dTp", "Basic d", "Basic \xff\xff\xff\xff", "Digest username=\"u\"",
                            "basic dTpw", "Bearer x", "Basic OnA=", "Basic dTo="}) {
    EXPECT_EQ(http_code(url, {"-H", std::string("Authorization: ") + value}), "401") << value;
  }
  EXPECT_EQ(http_code(url, {"-H", "Authorization: Basic " + std::string(6000, 'A')}), "401");
  EXPECT_EQ(http_code(url, {"-u", "u:p"}), "200");
}

struct BadFile {
  const char* text;
  const char* why;
};

TEST(Auth, AFileThatIsNoGoodClosesThePageAndLosesNothing) {
  TempDir dir;
  const std::string too_long = "u:" + std::string(1100, 'x');
  for (const BadFile& bad :
       {BadFile{"", "no colon"}, BadFile{"secret-word", "no colon"}, BadFile{":secret-word", "user is empty"},
        BadFile{"u:", "password is empty"}, BadFile{"u:secret-word\nv:w\n", "more than one line"},
        BadFile{too_long.c_str(), "longer than 1024"}}) {
    ExpositionOptions options = any_port();
    options.auth_file = put(dir, "auth", bad.text);
    options.textfile_dir = dir.path();
    const auto opened = serve(options);
    EXPECT_EQ(opened->publisher->url(), "") << bad.text;
    EXPECT_NE(opened->said.find("metrics password file '" + options.auth_file + "': "), std::string::npos)
        << opened->said;
    EXPECT_NE(opened->said.find(bad.why), std::string::npos) << opened->said;
    EXPECT_EQ(opened->said.find("secret-word"), std::string::npos) << "the log tells the secret";
    EXPECT_NE(opened->said.find("written to files in '" + dir.path() + "' instead"), std::string::npos);
    const std::string text = read_file(textfile_path(dir.path(), opened->source.identity()));
    EXPECT_NE(text.find("stepgate_steps_total{"), std::string::npos) << "the numbers are lost";
  }
}

TEST(Auth, AFileThatCannotBeReadIsNamed) {
  TempDir dir;
  ExpositionOptions options = any_port();
  options.auth_file = dir.path() + "/absent";
  EXPECT_NE(serve(options)->said.find("'" + options.auth_file + "': No such file or directory; this process"),
            std::string::npos);
  options.auth_file = dir.path();
  EXPECT_NE(serve(options)->said.find("Is a directory"), std::string::npos);
}

TEST(Auth, AFileThatThisUserMayNotReadIsNamed) {
  TempDir dir;
  chmod(dir.path().c_str(), 0755);
  const std::string open = put(dir, "open", "u:p", 0644), closed = put(dir, "closed", "u:p", 0000);
  const WithoutRootsRights ordinary;
  ExpositionOptions options = any_port();
  options.auth_file = open;
  EXPECT_NE(serve(options)->publisher->url(), "") << "whoever may read it has a page";
  options.auth_file = closed;
  const auto opened = serve(options);
  EXPECT_NE(opened->said.find("'" + closed + "': Permission denied"), std::string::npos) << opened->said;
  EXPECT_EQ(opened->publisher->url(), "");
}

TEST(Auth, AFileThatEverybodyCanReadIsTold) {
  TempDir dir;
  ExpositionOptions options = any_port();
  options.auth_file = put(dir, "auth", "u:p", 0644);
  const auto opened = serve(options);
  EXPECT_NE(opened->said.find("can be read by every user (mode 644)"), std::string::npos) << opened->said;
  EXPECT_EQ(http_code(opened->publisher->url(), {"-u", "u:p"}), "200");
}

TEST(Tls, CertificateAndKeyInOneFileOrTwo) {
  TempDir dir;
  const Identity127 us(dir);
  for (const bool one : {true, false}) {
    ExpositionOptions options = any_port();
    options.tls_certificate = one ? us.both : us.certificate;
    if (!one) options.tls_key = us.key;
    const auto opened = serve(options);
    const std::string url = opened->publisher->url();
    ASSERT_EQ(url.rfind("https://127.0.0.1:", 0), 0u) << url << opened->said;
    EXPECT_EQ(opened->said, "");
    const Outcome page = curl(url, {"--cacert", us.certificate});
    EXPECT_EQ(sample(page.output, "stepgate_steps_total"), "1") << page.output;
    EXPECT_EQ(run_program({"promtool", "check", "metrics"}, page.output).output, "");
    EXPECT_NE(curl(url).status, 0) << "nobody vouches for this certificate";
  }
}

// Debian's civetweb calls a function that OpenSSL 3 does not have as soon as a connection stands. It is the
// bridge that keeps the job alive: many connections, of clients of many kinds.
TEST(Tls, ConnectionsOfAnyKindAreSurvived) {
  TempDir dir;
  const Identity127 us(dir);
  ExpositionOptions options = any_port();
  options.tls_certificate = us.both;
  const auto opened = serve(options);
  const std::string url = opened->publisher->url();
  const int port = port_of(url);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(http_code(url, {"-k"}), "200");
    EXPECT_EQ(http_code(url, {"-k", "--tlsv1.2", "--tls-max", "1.2"}), "200");
    EXPECT_EQ(http_code(url, {"-k", "--cert", us.both}), "200") << "a client with a certificate of its own";
    EXPECT_NE(curl(url, {"-k", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"}).status, 0);
    EXPECT_EQ(http_get("127.0.0.1", port, "/metrics").status, 0) << "plain HTTP on that port";
    hang_up(url);
  }
  EXPECT_EQ(http_code(url, {"-k"}), "200");
}

TEST(Tls, WithAPasswordToo) {
  TempDir dir;
  const Identity127 us(dir);
  ExpositionOptions options = any_port();
  options.tls_certificate = us.both;
  options.auth_file = put(dir, "auth", "prometheus:pass\r\n");
  const auto opened = serve(options);
  EXPECT_EQ(http_code(opened->publisher->url(), {"-k"}), "401");
  EXPECT_EQ(http_code(opened->publisher->url(), {"-k", "-u", "prometheus:pass"}), "200");
}

TEST(Tls, PagesComeAndGo) {
  TempDir dir;
  const Identity127 us(dir);
  ExpositionOptions options = any_port();
  options.tls_certificate = us.both;
  const auto first = serve(options);
  for (int i = 0; i < 3; ++i) {
    const auto next = serve(options);
    EXPECT_EQ(http_code(next->publisher->url(), {"-k"}), "200");
  }
  EXPECT_EQ(http_code(first->publisher->url(), {"-k"}), "200");
}

// The stand-ins carry the names that the server asks for, so whoever else in the job asks for them by these
// names gets them as well. Behind them is the system's OpenSSL, whole.
TEST(Tls, WhoElseAsksForTheseNamesGetsOpenSsl) {
  TempDir dir;
  const Identity127 us(dir);
  ExpositionOptions options = any_port();
  options.tls_certificate = us.both;
  const auto opened = serve(options);
  struct Name {
    const char* asked;
    const char* system;
    const char* ours;
    const char* function;
  };
  for (const Name& n : {Name{"libssl.so", "libssl.so.3", "stepgate_tls_open", "SSL_CTX_new"},
                        Name{"libcrypto.so", "libcrypto.so.3", "stepgate_tls_crypto", "EVP_sha256"}}) {
    void* const asked = dlopen(n.asked, RTLD_LAZY | RTLD_LOCAL);
    void* const system = dlopen(n.system, RTLD_LAZY | RTLD_NOLOAD);
    ASSERT_NE(asked, nullptr) << dlerror();
    ASSERT_NE(system, nullptr) << n.system;
    EXPECT_NE(dlsym(asked, n.ours), nullptr) << "the stand-in is what the name means";
    EXPECT_NE(dlsym(asked, n.function), nullptr);
    EXPECT_EQ(dlsym(asked, n.function), dlsym(system, n.function));
    dlclose(asked);
    dlclose(system);
  }
}

TEST(Tls, TheTargetFileSaysHttps) {
  TempDir dir, targets;
  const Identity127 us(dir);
  ExpositionOptions options = any_port();
  options.tls_certificate = us.both;
  options.file_sd_dir = targets.path();
  const auto opened = serve(options);
  ASSERT_EQ(targets.files().size(), 1u) << opened->said;
  EXPECT_NE(read_file(targets.path() + "/" + targets.files()[0]).find("\"__scheme__\": \"https\""),
            std::string::npos);
}

// The line that is said, with the page kept as a file.
std::string refusal(const std::string& certificate, const std::string& key = "",
                    const std::string& folder = STEPGATE_TEST_TLS_FOLDER) {
  TempDir pages;
  ExpositionOptions options = any_port();
  options.tls_certificate = certificate;
  options.tls_key = key;
  options.tls_folder = folder;
  options.textfile_dir = pages.path();
  const auto opened = serve(options);
  EXPECT_EQ(opened->publisher->url(), "");
  EXPECT_EQ(pages.files().size(), 1u) << "the numbers are lost";
  return opened->said;
}

void expect_said(const std::string& said, const Words& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(said.find(part), std::string::npos) << part << " in: " << said;
}

TEST(Tls, FilesThatAreNoGoodAreNamed) {
  TempDir dir;
  const Identity127 us(dir), other(dir, "other");
  const std::string absent = dir.path() + "/absent";
  const std::string garbage =
      put(dir, "garbage", "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n");
  const std::string empty = put(dir, "empty", "");
  expect_said(refusal(absent), {"metrics certificate '" + absent + "'", "No such file"});
  expect_said(refusal(us.certificate, absent), {"metrics private key '" + absent + "'", "No such file"});
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_said(refusal(pipe), {"metrics certificate '" + pipe + "'", "not a regular file"});
  expect_said(refusal(garbage), {"'" + garbage + "' holds no PEM certificate"});
  expect_said(refusal(empty), {"'" + empty + "' holds no PEM certificate"});
  expect_said(refusal(us.certificate), {"'" + us.certificate + "' holds no PEM private key"});
  expect_said(refusal(us.certificate, other.key),
              {"'" + other.key + "' holds no PEM private key", "mismatch"});
  expect_said(refusal("", us.key), {"'" + us.key + "' has no certificate"});
}

TEST(Tls, AKeyThatThisUserMayNotReadIsNamed) {
  TempDir dir;
  const Identity127 us(dir);
  chmod(dir.path().c_str(), 0755);
  chmod(us.certificate.c_str(), 0644);
  chmod(us.key.c_str(), 0000);
  const WithoutRootsRights ordinary;
  expect_said(refusal(us.certificate, us.key), {"metrics private key '" + us.key + "'", "Permission denied"});
}

// OpenSSL would ask for the pass phrase on the terminal, and the job would stand still.
TEST(Tls, AKeyWithAPassPhraseIsRefusedAndNotAskedFor) {
  TempDir dir;
  const Identity127 us(dir);
  const std::string locked = dir.path() + "/locked.key";
  const Outcome made =
      run_program({"openssl", "pkey", "-in", us.key, "-aes256", "-passout", "pass:x", "-out", locked}, "");
  ASSERT_EQ(made.status, 0) << made.output;
  expect_said(refusal(us.certificate, locked),
              {"'" + locked + "' holds no PEM private key without a pass phrase"});
}

TEST(Tls, AnExpiredCertificateIsServedAndTold) {
  TempDir dir;
  const Identity127 us(dir);
  const std::string request = dir.path() + "/r.csr", old = dir.path() + "/old.crt";
  run_program({"openssl", "req", "-new", "-key", us.key, "-subj", "/CN=old", "-out", request}, "");
  const Outcome made = run_program(
      {"openssl", "x509", "-req", "-in", request, "-signkey", us.key, "-days", "-1", "-out", old}, "");
  ASSERT_EQ(made.status, 0) << made.output;
  ExpositionOptions options = any_port();
  options.tls_certificate = old;
  options.tls_key = us.key;
  const auto opened = serve(options);
  EXPECT_NE(opened->said.find("'" + old + "' has expired"), std::string::npos) << opened->said;
  EXPECT_EQ(http_code(opened->publisher->url(), {"-k"}), "200");
}

TEST(Tls, WithoutTheBridgeThereIsNoPageRatherThanACrash) {
  TempDir dir;
  const Identity127 us(dir);
  expect_said(refusal(us.both, "", dir.path()), {"TLS cannot be had", dir.path()});
}

// The reason for metrics/tls. Where this fails, the system's civetweb serves TLS with OpenSSL 3 by itself.
TEST(Server, AloneDoesNotLiveThroughATlsConnection) {
  TempDir dir;
  const Identity127 us(dir);
  const Outcome outcome = run_program({STEPGATE_TEST_CIVETWEB_ALONE, us.both}, "");
  EXPECT_NE(outcome.status, 0) << "it served";
  EXPECT_FALSE(outcome.status >= 40 && outcome.status <= 42) << outcome.status << ": " << outcome.output;
}

// What the refusal of IPv6 addresses says of Debian's civetweb. Where this fails, IPv6 can be allowed.
TEST(Server, HasTlsAndNoIpv6) {
  EXPECT_NE(mg_check_feature(MG_FEATURES_TLS), 0u);
  EXPECT_EQ(mg_check_feature(MG_FEATURES_IPV6), 0u);
}

TEST(Server, IPv6IsRefusedInWords) {
  std::string why;
  EXPECT_EQ(probe_port("::1", 0, &why), BindResult::kBadAddress);
  EXPECT_NE(why.find("IPv6"), std::string::npos) << why;
}

}  // namespace
}  // namespace stepgate::metrics::test
