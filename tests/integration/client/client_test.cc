// The header-only client: complete, usable from C99, harmless where no plugin answers, and through
// where one does.
#include "stepgate/client.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

extern "C" int c99_client_without_plugin(void);

namespace stepgate::test {
namespace {

std::string header(const char* name) {
  std::ifstream file(std::string(STEPGATE_TEST_SOURCE "/plugin/include/stepgate/") + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Every X of a declaration "STEPGATE_API ... stepgate_X(".
std::set<std::string> api_functions(const std::string& text) {
  std::set<std::string> names;
  const std::string mark = "\nSTEPGATE_API ";
  const std::string prefix = "stepgate_";
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t end = text.find('(', at);
    const std::size_t begin = text.rfind(prefix, end) + prefix.size();
    names.insert(text.substr(begin, end - begin));
  }
  return names;
}

TEST(Client, HasAWrapperForEveryFunctionOfTheApi) {
  const std::set<std::string> api = api_functions(header("stepgate.h"));
  EXPECT_GT(api.size(), 35u);
  const std::string client = header("client.h");
  for (const std::string& name : api) {
    const bool by_macro = client.find("(" + name + ",") != std::string::npos ||
                          client.find(", " + name + ",") != std::string::npos;
    const bool by_hand = client.find("\"stepgate_" + name + "\"") != std::string::npos;
    EXPECT_TRUE(by_macro || by_hand) << "stepgate_" << name;
  }
}

TEST(Client, FromC99WithoutAPlugin) {
  EXPECT_EQ(c99_client_without_plugin(), 0);
}

TEST(Client, WithoutAPluginNothingIsTouched) {
  std::size_t bytes = 77;
  stepgate_decision decision{};
  decision.skip = 9;
  char url[8] = "before";
  EXPECT_EQ(stepgate_client_load(), STEPGATE_NO_PLUGIN);
  EXPECT_EQ(stepgate_client_state_save(nullptr, nullptr, &bytes), STEPGATE_NO_PLUGIN);
  EXPECT_EQ(stepgate_client_step_wait(nullptr, 0, &decision), STEPGATE_NO_PLUGIN);
  EXPECT_EQ(stepgate_client_metrics_url(url, sizeof url), STEPGATE_NO_PLUGIN);
  EXPECT_EQ(stepgate_client_enforce_begin(nullptr, nullptr), STEPGATE_NO_PLUGIN);
  EXPECT_EQ(bytes, 77u);
  EXPECT_EQ(decision.skip, 9);
  EXPECT_STREQ(url, "before");
  EXPECT_EQ(stepgate_client_api_version(), 0);
  EXPECT_STREQ(stepgate_client_version(), "");
  EXPECT_STREQ(stepgate_client_last_error(), "");
  EXPECT_STREQ(stepgate_client_status_string(STEPGATE_NO_PLUGIN), "no plugin");
}

// A symbol that comes later is found, and threads that look at once all find the same one.
TEST(ClientSymbol, IsKeptOnceFoundAndSearchedAgainUntilThen) {
  static void* slot = nullptr;
  EXPECT_EQ(stepgate_client_symbol(&slot, "stepgate_no_such_function"), nullptr);
  EXPECT_EQ(slot, nullptr);
  std::vector<std::thread> threads;
  std::vector<void*> found(8, nullptr);
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&found, i] { found[i] = stepgate_client_symbol(&slot, "malloc"); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(found[0], nullptr);
  for (void* symbol : found) EXPECT_EQ(symbol, found[0]);
  EXPECT_EQ(slot, found[0]);
}

}  // namespace
}  // namespace stepgate::test
