// `stepgate check`, in an installation of its own whose plugin carries whatever kernels a test says.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/process.h"

namespace stepgate::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Variables = std::map<std::string, std::string>;

constexpr const char* kSomeKernels = "stepgate-fatbin: cuda=13.0 sm=75,80,90,120 ptx=120";

class Check : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"bin", "lib", "lib/hostnccl", "driver"}) fs::create_directories(at(folder));
    fs::copy_file(command_path(), at("bin/stepgate"));
    for (const char* name : {"libstepgate.so", "libstepgate_ucx.so", "hostnccl/libnccl.so.2"}) {
      write(std::string("lib/") + name, "");
    }
    carry(kSomeKernels);
  }

  std::string at(const std::string& name) const { return folder_.file(name); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(at(name), std::ios::binary) << bytes;
  }
  // The plugin's file, with a line about its kernels somewhere inside.
  void carry(const std::string& line) const {
    write("lib/libstepgate_core.so",
          std::string("\x7f") + "ELF" + std::string(100, '\0') + line + std::string(1, '\0') + "more bytes");
  }
  void use_driver(const std::string& file) const { fs::copy_file(file, at("driver/libcuda.so.1")); }

  // With a driver from this test's folder; without one, the machine's if it has one.
  Outcome check(Variables variables = {}, const std::vector<std::string>& options = {}) const {
    variables.emplace("LD_LIBRARY_PATH", at("driver"));
    std::vector<std::string> words = {at("bin/stepgate"), "check"};
    words.insert(words.end(), options.begin(), options.end());
    return run(words, variables);
  }
  json document(Variables variables, int status) const {
    const Outcome o = check(std::move(variables), {"--json"});
    EXPECT_EQ(o.status, status) << o.out << o.err;
    return json::parse(o.out, nullptr, false);
  }
  static std::string state_of(const json& all, const std::string& subject) {
    for (const json& line : all.at("checks")) {
      if (line.at("subject") == subject) return line.at("state");
    }
    return "no such line";
  }
  static std::string text_of(const json& all, const std::string& subject) {
    for (const json& line : all.at("checks")) {
      if (line.at("subject") == subject) return line.at("text");
    }
    return "no such line";
  }
  static std::string remedy_of(const json& all, const std::string& subject) {
    for (const json& line : all.at("checks")) {
      if (line.at("subject") == subject && line.at("remedy").is_string()) return line.at("remedy");
    }
    return "";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Check, DevicesThatFit) {
  use_driver(STEPGATE_STANDIN_CUDA);
  const json all = document({{"STEPGATE_STANDIN_DEVICES", "2"}}, 0);
  EXPECT_EQ(all.at("ok"), true);
  EXPECT_EQ(all.at("result"), "GPU jobs can run here");
  EXPECT_EQ(all.at("device_code").at("architectures"), json({75, 80, 90, 120}));
  EXPECT_EQ(all.at("device_code").at("cuda"), "13.0");
  EXPECT_EQ(all.at("driver").at("cuda"), "13.0");
  ASSERT_EQ(all.at("devices").size(), 2u);
  EXPECT_EQ(all.at("devices").at(1).at("capability"), "9.0");
  EXPECT_EQ(all.at("devices").at(1).at("code"), "sm_90");
  EXPECT_EQ(state_of(all, "device 1"), "ok");
}

TEST_F(Check, TableForPeople) {
  use_driver(STEPGATE_STANDIN_CUDA);
  const Outcome o = check();
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("StepGate " STEPGATE_TEST_VERSION "\n"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("  device 0      ok     CPU stand-in 0, compute capability 9.0, runs sm_90\n"),
            std::string::npos)
      << o.out;
  EXPECT_NE(o.out.find("result: GPU jobs can run here\n"), std::string::npos) << o.out;
}

TEST_F(Check, DriverTooOldSaysWhatWouldHelp) {
  use_driver(STEPGATE_STANDIN_CUDA);
  const Outcome o = check({{"STEPGATE_STANDIN_DRIVER_VERSION", "12020"}});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("offers CUDA 12.2"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("driver 580 or newer"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("needs a build with CUDA 12\n"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("result: something is wrong"), std::string::npos) << o.out;
}

// A build with CUDA 12 on a driver of CUDA 13, and of a later 12.
TEST_F(Check, OlderKernelsFitANewerDriver) {
  use_driver(STEPGATE_STANDIN_CUDA);
  carry("stepgate-fatbin: cuda=12.4 sm=80,90 ptx=90");
  EXPECT_EQ(check().status, 0);
  EXPECT_EQ(check({{"STEPGATE_STANDIN_DRIVER_VERSION", "12020"}}).status, 0);
}

TEST_F(Check, NoKernelsForTheDevice) {
  use_driver(STEPGATE_STANDIN_CUDA);
  carry("stepgate-fatbin: cuda=13.0 sm=75,80,100 ptx=100");
  const json all = document({}, 1);
  EXPECT_EQ(state_of(all, "device 0"), "wrong");
  EXPECT_EQ(all.at("devices").at(0).at("code"), "");
}

TEST_F(Check, PtxFitsWhereTheDriverIsNewEnough) {
  use_driver(STEPGATE_STANDIN_CUDA);
  carry("stepgate-fatbin: cuda=13.0 sm=80 ptx=80");
  EXPECT_EQ(document({}, 0).at("devices").at(0).at("code"), "PTX of compute_80");
  carry("stepgate-fatbin: cuda=13.1 sm=80 ptx=80");
  EXPECT_EQ(document({}, 1).at("devices").at(0).at("code"), "");
}

TEST_F(Check, HostOnlyBuildIsWrongBesideAGpuAlone) {
  carry("no kernels");
  use_driver(STEPGATE_STANDIN_CUDA);
  EXPECT_EQ(state_of(document({}, 1), "device code"), "wrong");
  EXPECT_EQ(state_of(document({{"STEPGATE_STANDIN_DEVICES", "0"}}, 0), "device code"), "note");
}

TEST_F(Check, DriverWithoutADeviceIsFine) {
  use_driver(STEPGATE_STANDIN_CUDA);
  EXPECT_EQ(document({{"STEPGATE_STANDIN_DEVICES", "0"}}, 0).at("result"), "host memory only");
  const json all = document({{"STEPGATE_STANDIN_FAIL", "cuInit:0:100"}}, 0);
  EXPECT_EQ(all.at("driver").at("found"), true);
  EXPECT_EQ(state_of(all, "driver"), "note");
}

TEST_F(Check, DriverThatDoesNotStartIsWrong) {
  use_driver(STEPGATE_STANDIN_CUDA);
  const Outcome o = check({{"STEPGATE_STANDIN_FAIL", "cuInit:0:803"}});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), std::string::npos) << o.out;
}

TEST_F(Check, DriverThatLacksFunctionsIsWrong) {
  use_driver(STEPGATE_PARTIAL_DRIVER);
  const Outcome o = check();
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("lacks cu"), std::string::npos) << o.out;
}

TEST_F(Check, DriverThatCannotBeLoadedIsWrong) {
  write("driver/libcuda.so.1", "no library");
  const Outcome o = check();
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("driver        wrong"), std::string::npos) << o.out;
}

TEST_F(Check, NoDriverAtAllIsHostOnly) {
  if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) GTEST_SKIP() << "this machine has a CUDA driver";
  const json all = document({}, 0);
  EXPECT_EQ(all.at("driver").at("found"), false);
  EXPECT_EQ(all.at("result"), "host memory only");
  EXPECT_EQ(state_of(all, "driver"), "note");
}

TEST_F(Check, PluginThatIsNotThereIsWrong) {
  fs::remove(at("lib/libstepgate_ucx.so"));
  const Outcome o = check({{"STEPGATE_STANDIN_DEVICES", "0"}});
  EXPECT_EQ(o.status, 1);
  EXPECT_NE(o.out.find("libstepgate_ucx.so"), std::string::npos) << o.out;
}

TEST_F(Check, NcclThatAProgramWouldGet) {
  fs::copy_file(STEPGATE_TEST_LIB "/hostnccl/libnccl.so.2", at("driver/libnccl.so.2"));
  const json all = document({{"STEPGATE_STANDIN_DEVICES", "0"}}, 0);
  EXPECT_EQ(all.at("nccl").at("found"), true);
  EXPECT_EQ(all.at("nccl").at("path"), fs::canonical(at("driver/libnccl.so.2")).string());
  EXPECT_TRUE(all.at("nccl").at("version").is_string());
}

// A port that is taken while the test runs.
class TakenPort {
 public:
  TakenPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    auto* address = reinterpret_cast<sockaddr*>(&where);
    if (bind(fd_, address, size) != 0 || listen(fd_, 1) != 0 || getsockname(fd_, address, &size) != 0) {
      ADD_FAILURE() << "no port";
    }
    number_ = ntohs(where.sin_port);
  }
  TakenPort(const TakenPort&) = delete;
  TakenPort& operator=(const TakenPort&) = delete;
  ~TakenPort() { close(fd_); }
  std::string number() const { return std::to_string(number_); }

 private:
  int fd_;
  int number_ = 0;
};

TEST_F(Check, PortIsFreeOrTaken) {
  use_driver(STEPGATE_STANDIN_CUDA);
  std::string port;
  {
    const TakenPort taken;
    port = taken.number();
    const json all = document({{"STEPGATE_METRICS_PORT", port}}, 0);
    EXPECT_EQ(state_of(all, "port"), "note");
    EXPECT_NE(remedy_of(all, "port").find("STEPGATE_METRICS_FILE_SD_DIR"), std::string::npos);
  }
  EXPECT_EQ(state_of(document({{"STEPGATE_METRICS_PORT", port}}, 0), "port"), "ok");
  EXPECT_EQ(state_of(document({{"STEPGATE_METRICS_PORT", "0"}}, 0), "port"), "ok");
  EXPECT_EQ(state_of(document({{"STEPGATE_METRICS", "off"}}, 0), "port"), "note");
}

// However the launcher says how many ranks this machine has.
TEST_F(Check, PortOfAnyLocalRankCounts) {
  use_driver(STEPGATE_STANDIN_CUDA);
  const TakenPort taken;
  const std::string first = std::to_string(std::stoi(taken.number()) - 1);
  for (Variables v :
       {Variables{{"LOCAL_WORLD_SIZE", "2"}},
        Variables{{"OMPI_COMM_WORLD_RANK", "0"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
        Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}}) {
    const std::string launcher = v.rbegin()->first;
    v["STEPGATE_METRICS_PORT"] = first;
    const json all = document(v, 0);
    EXPECT_EQ(state_of(all, "port"), "note") << launcher << all.dump(2);
    EXPECT_NE(text_of(all, "settings").find("2 ranks on this machine"), std::string::npos) << all.dump(2);
  }
}

TEST_F(Check, SettingsOfTheFileCountAndTheEnvironmentWins) {
  const TakenPort taken;
  write("job.conf", "STEPGATE_METRICS_PORT = " + taken.number() + "\n");
  EXPECT_EQ(state_of(document({{"STEPGATE_CONFIG", at("job.conf")}}, 0), "port"), "note");
  EXPECT_EQ(
      state_of(document({{"STEPGATE_CONFIG", at("job.conf")}, {"STEPGATE_METRICS_PORT", "0"}}, 0), "port"),
      "ok");
  for (const char* none : {"STEPGATE_METRICS", "STEPGATE_MODE"}) {
    write("job.conf", std::string(none) + " = off\n");
    const json all = document({{"STEPGATE_CONFIG", at("job.conf")}}, 0);
    EXPECT_NE(text_of(all, "port").find(none + std::string("=off")), std::string::npos) << all.dump(2);
  }
}

// As the plugin would: in its words, wherever the value comes from. No page, no port.
TEST_F(Check, SettingsThatThePluginRefusesAreWrong) {
  write("bad.conf", "\nSTEPGATE_GROWTH = 0.5\n");
  for (const Variables& v :
       {Variables{{"STEPGATE_METRICS_PORT", "65536"}}, Variables{{"STEPGATE_METRICS_ADDR", "example.org"}},
        Variables{{"STEPGATE_METRICS_PORT", "0"}, {"LOCAL_WORLD_SIZE", "none"}},
        Variables{{"STEPGATE_CONFIG", at("bad.conf")}}, Variables{{"STEPGATE_CONFIG", at("none.conf")}}}) {
    const json all = document(v, 1);
    EXPECT_EQ(state_of(all, "settings"), "wrong") << all.dump(2);
    EXPECT_NE(remedy_of(all, "settings"), "");
    EXPECT_EQ(state_of(all, "port"), "no such line");
  }
  const std::string said = text_of(document({{"STEPGATE_CONFIG", at("bad.conf")}}, 1), "settings");
  EXPECT_NE(said.find(at("bad.conf") + ":2: STEPGATE_GROWTH='0.5'"), std::string::npos) << said;
}

TEST_F(Check, SettingsThatNothingReadsOrThatContradictAreNotes) {
  write("odd.conf", "STEPGATE_GROWHT = 2\n");
  const Variables twice = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}};
  for (const auto& [v, word] : {std::pair{Variables{{"STEPGATE_MOOD", "off"}}, "STEPGATE_MODE"},
                                std::pair{Variables{{"STEPGATE_CONFIG", at("odd.conf")}}, "STEPGATE_GROWTH"},
                                std::pair{twice, "SLURM_PROCID=1"}}) {
    const json all = document(v, 0);
    EXPECT_EQ(state_of(all, "settings"), "note") << all.dump(2);
    EXPECT_NE(text_of(all, "settings").find(word), std::string::npos) << all.dump(2);
  }
}

TEST_F(Check, AnAddressThatIsNotThisMachinesIsWrong) {
  const json all = document({{"STEPGATE_METRICS_ADDR", "192.0.2.1"}}, 1);
  EXPECT_EQ(state_of(all, "port"), "wrong") << all.dump(2);
  EXPECT_NE(remedy_of(all, "port"), "");
}

// Whatever is not well says what to do about it.
TEST_F(Check, EveryNoteAndFaultHasARemedy) {
  fs::remove(at("lib/libstepgate_ucx.so"));
  fs::remove(at("lib/hostnccl/libnccl.so.2"));
  carry("no kernels");
  write("driver/libcuda.so.1", "no library");
  for (const Variables& v : {Variables{}, Variables{{"STEPGATE_METRICS", "off"}}}) {
    const json all = document(v, 1);
    for (const json& line : all.at("checks")) {
      EXPECT_EQ(line.at("remedy").is_null(), line.at("state") == "ok") << line;
    }
  }
  EXPECT_NE(check().out.find("-> build or unpack StepGate whole"), std::string::npos);
}

TEST_F(Check, WrongWordsAreRefused) {
  for (const char* word : {"--jason", "more", "--json=yes", "--pid=0", "--pid=x"}) {
    const Outcome o = check({}, {word});
    EXPECT_EQ(o.status, 2) << word;
    EXPECT_NE(o.err.find("allowed"), std::string::npos) << o.err;
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--"},
                                                {"--pid"},
                                                {"--pid", "1", "--", "true"},
                                                {"--seconds", "1"},
                                                {"--seconds", "0", "--", "true"}}) {
    EXPECT_EQ(check({}, words).status, 2) << words[0];
  }
  EXPECT_EQ(check({}, {"--help"}).status, 0);
}

}  // namespace
}  // namespace stepgate::test
