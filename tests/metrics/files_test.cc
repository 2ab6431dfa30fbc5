// The textfile and the target file.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "metrics/page_file.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

constexpr const char* kPageFile = "stepgate_charlm_run-7_rank3.prom";
// A series of a textfile, whose labels stand in alphabetical order here.
std::string of_rank(const std::string& family) {
  return family + "{host=\"node-a\",job_name=\"charlm\",local_rank=\"1\",rank=\"3\",run_id=\"run-7\"}";
}

TEST(Textfile, IsAWholePageThatSaysOnEverySeriesWhoseItIs) {
  TempDir dir;
  double now = 1000;
  PublisherOptions options = quiet_options();
  options.exposition.textfile_dir = dir.path();
  options.textfile_seconds = 5;
  options.now = [&now] { return now; };
  FakeSource source;
  source.set_enforcing(true);
  source.push(applied(1));
  const std::string path = dir.path() + "/" + kPageFile;
  {
    Publisher publisher(std::move(options));
    publisher.add_source(&source);
    publisher.poll_once();
    EXPECT_EQ(publisher.url(), "");
    const std::string text = read_file(path);
    EXPECT_EQ(sample(text, of_rank("stepgate_steps_total")), "1");
    EXPECT_EQ(run_program({"promtool", "check", "metrics"}, text).output, "");
    for (const auto& [series, value] : samples(text)) {
      for (const char* label : {"{host=\"node-a\"", ",job_name=\"charlm\"", ",local_rank=\"1\"",
                                ",rank=\"3\"", ",run_id=\"run-7\""}) {
        const std::string wanted = label + (label[0] == '{' ? 1 : 0);
        EXPECT_NE(series.find(wanted), std::string::npos) << series;
        EXPECT_EQ(series.find(wanted), series.rfind(wanted)) << "twice in " << series;
      }
    }

    source.push(applied(2));
    now += 4;
    publisher.poll_once();
    EXPECT_EQ(sample(read_file(path), of_rank("stepgate_steps_total")), "1") << "not due yet";
    now += 2;
    publisher.poll_once();
    EXPECT_EQ(sample(read_file(path), of_rank("stepgate_steps_total")), "2");
    source.push(applied(3));
  }
  EXPECT_EQ(sample(read_file(path), of_rank("stepgate_steps_total")), "3") << "the last numbers stay";
  EXPECT_EQ(dir.files(), std::vector<std::string>{kPageFile}) << "no temporary file is left";
}

ino_t inode(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 ? s.st_ino : 0;
}

// A reader that holds the old file keeps a whole one: the new is another file, moved over the name.
TEST(Textfile, IsReplacedByRename) {
  TempDir dir;
  const std::string path = dir.path() + "/x.prom";
  std::string error;
  HeldFile held;
  ASSERT_TRUE(replace_file(path, "old\n", &held, &error)) << error;
  std::ifstream reader(path);
  const ino_t before = inode(path);
  ASSERT_TRUE(replace_file(path, "new\n", &held, &error)) << error;
  EXPECT_NE(inode(path), before);
  std::string line;
  std::getline(reader, line);
  EXPECT_EQ(line, "old");
  EXPECT_EQ(read_file(path), "new\n");
}

// Two dumps of one gate, say.
TEST(Textfile, ThreadsThatWriteOnePathLeaveAWholeFileOfOneOfThem) {
  TempDir dir;
  const std::string path = dir.path() + "/x.prom";
  static constexpr std::size_t kBytes = 100000;
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&path, t] {
      const std::string text(kBytes, static_cast<char>('a' + t));
      for (int i = 0; i < 200; ++i) {
        HeldFile held;
        std::string error;
        EXPECT_TRUE(replace_file(path, text, &held, &error)) << error;
        const std::string seen = read_file(path);
        EXPECT_EQ(seen.size(), kBytes);
        EXPECT_EQ(seen.find_first_not_of(seen.substr(0, 1)), std::string::npos) << "a mixture of two";
      }
    });
  }
  for (std::thread& w : writers) w.join();
  EXPECT_EQ(dir.files(), std::vector<std::string>{"x.prom"}) << "no temporary file is left";
}

TEST(Textfile, AFolderThatIsNotThereIsSaidOnceAndCostsNothingElse) {
  PublisherOptions options = quiet_options();
  options.exposition.textfile_dir = "/nonexistent/folder";
  std::vector<std::string> said;
  options.log = [&](std::string_view line) { said.emplace_back(line); };
  options.textfile_seconds = 0;
  FakeSource source;
  source.set_enforcing(true);
  Publisher publisher(std::move(options));
  publisher.add_source(&source);
  source.push(applied(1));
  for (int i = 0; i < 3; ++i) publisher.poll_once();
  EXPECT_EQ(sample(publisher.page(), "stepgate_steps_total"), "1");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find(std::string("/nonexistent/folder/") + kPageFile), std::string::npos) << said[0];
  publisher.remove_source(&source);
}

PublisherOptions discovered(const TempDir& dir) {
  PublisherOptions options = quiet_options();
  options.exposition.http = true;
  options.exposition.first_port = 0;
  options.exposition.file_sd_dir = dir.path();
  return options;
}

TEST(TargetFileTest, SaysWhereThePageIsAndGoesWithIt) {
  TempDir dir;
  FakeSource source;
  {
    Publisher publisher(discovered(dir));
    EXPECT_TRUE(dir.files().empty()) << "nobody is known yet";
    publisher.add_source(&source);
    publisher.poll_once();
    ASSERT_EQ(dir.files(), std::vector<std::string>{"stepgate_charlm_run-7_rank3.json"});
    const auto json = nlohmann::json::parse(read_file(dir.path() + "/" + dir.files()[0]));
    const nlohmann::json labels = {
        {"rank", "3"}, {"local_rank", "1"}, {"host", "node-a"}, {"job_name", "charlm"}, {"run_id", "run-7"}};
    const std::string target = "127.0.0.1:" + std::to_string(port_of(publisher.url()));
    const nlohmann::json wanted = nlohmann::json::array({{{"targets", {target}}, {"labels", labels}}});
    EXPECT_EQ(json, wanted);
  }
  EXPECT_TRUE(dir.files().empty());
}

// Two jobs without a name, or a rank's new process beside its old one.
TEST(TargetFileTest, LeavesWhatAnotherProcessPutInItsPlace) {
  TempDir dir;
  const Identity who = FakeSource().identity();
  std::string error;
  auto old = TargetFile::write(dir.path(), who, "a:1", "http", &error);
  auto fresh = TargetFile::write(dir.path(), who, "b:2", "http", &error);
  ASSERT_TRUE(old && fresh) << error;
  old.reset();
  ASSERT_EQ(dir.files().size(), 1u);
  EXPECT_NE(read_file(dir.path() + "/" + dir.files()[0]).find("b:2"), std::string::npos);
  fresh.reset();
  EXPECT_TRUE(dir.files().empty());
}

// The temporary's name can be guessed, and others may write to the folder.
TEST(TargetFileTest, FollowsNoLinkThatWasPlanted) {
  TempDir dir;
  const std::string victim = dir.path() + "/victim", path = dir.path() + "/page.json";
  std::ofstream(victim) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), (path + "." + std::to_string(gettid()) + ".tmp").c_str()), 0);
  HeldFile held;
  std::string error;
  EXPECT_TRUE(replace_file(path, "page", &held, &error)) << error;
  EXPECT_EQ(read_file(victim), "precious");
  EXPECT_EQ(read_file(path), "page");
}

TEST(TargetFileTest, AllInterfacesAreScrapedByTheHostsName) {
  TempDir dir;
  FakeSource source;
  PublisherOptions options = discovered(dir);
  options.exposition.address = "0.0.0.0";
  Publisher publisher(std::move(options));
  publisher.add_source(&source);
  publisher.poll_once();
  ASSERT_EQ(dir.files().size(), 1u);
  const auto json = nlohmann::json::parse(read_file(dir.path() + "/" + dir.files()[0]));
  EXPECT_EQ(json[0]["targets"][0], "node-a:" + std::to_string(port_of(publisher.url())));
  publisher.remove_source(&source);
}

TEST(TargetFileTest, NamesOfAnyKindMakeOneFileAndValidJson) {
  Identity who;
  who.job_name = "../../etc/\"x\" y";
  who.run_id = "";
  EXPECT_EQ(target_path("/d", who), "/d/stepgate_..-..-etc--x--y_none_rank0.json");
  who.host = "bad\xff";
  const auto json = nlohmann::json::parse(target_json(who, "a:1", "http"));
  EXPECT_EQ(json[0]["labels"]["job_name"], who.job_name);
}

TEST(TargetFileTest, NoneWithoutALivePage) {
  TempDir dir;
  PublisherOptions options = discovered(dir);
  options.exposition.http = false;
  FakeSource source;
  Publisher publisher(std::move(options));
  publisher.add_source(&source);
  publisher.poll_once();
  EXPECT_TRUE(dir.files().empty());
  publisher.remove_source(&source);
}

}  // namespace
}  // namespace stepgate::metrics::test
