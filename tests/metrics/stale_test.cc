// Files that dead ranks left behind: who may remove them, and who must not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "metrics/page_file.h"
#include "tests/metrics/publisher_fixture.h"

namespace stepgate::metrics::test {
namespace {

Identity rank_of(int rank, const std::string& host = "node-a") {
  Identity who = FakeSource().identity();
  who.rank = rank;
  who.host = host;
  return who;
}

PublisherOptions both_files(const TempDir& dir, bool http) {
  PublisherOptions options = quiet_options();
  options.exposition.http = http;
  options.exposition.first_port = 0;
  options.exposition.file_sd_dir = dir.path();
  options.exposition.textfile_dir = dir.path();
  return options;
}

// What a rank writes that is killed without a chance to clean up.
void leave_behind(const TempDir& dir, const Identity& who) {
  HeldFile held;
  std::string error;
  ASSERT_TRUE(
      replace_file(target_path(dir.path(), who), target_json(who, "127.0.0.1:1", "http"), &held, &error));
  ASSERT_TRUE(replace_file(textfile_path(dir.path(), who),
                           textfile_page({}, who) + "x{host=\"" + who.host + "\"} 1\n", &held, &error));
}

// The first rank of a host sweeps for all: in a folder that hosts share it opens every rank's file.
TEST(StaleFiles, OfThisHostGoWhenItsFirstRankStarts) {
  TempDir dir;
  leave_behind(dir, rank_of(7));
  ASSERT_EQ(dir.files().size(), 2u);
  for (const int local_rank : {1, 0}) {
    FakeSource source;
    Identity who = source.identity();
    who.local_rank = local_rank;
    source.set_identity(who);
    Publisher publisher(both_files(dir, true));
    publisher.add_source(&source);
    publisher.poll_once();
    EXPECT_EQ(dir.files().size(), local_rank == 0 ? 1u : 3u);
    publisher.remove_source(&source);
  }
}

TEST(StaleFiles, OfAnotherHostOrOfNobodyWeKnowStay) {
  TempDir dir;
  leave_behind(dir, rank_of(7, "node-b"));
  std::ofstream(dir.path() + "/stepgate_notes.json") << "[]\n";
  std::ofstream(dir.path() + "/other.json") << "\"host\": \"node-a\"\n";
  sweep_targets(dir.path(), rank_of(0));
  sweep_textfiles(dir.path(), rank_of(0));
  sweep_targets(dir.path(), rank_of(0, ""));
  EXPECT_EQ(dir.files().size(), 4u);
}

TEST(StaleFiles, OfRanksThatLiveStay) {
  TempDir dir;
  FakeSource page, file;
  Identity who = file.identity();
  who.rank = 4;
  file.set_identity(who);
  Publisher serves(both_files(dir, true)), writes(both_files(dir, false));
  serves.add_source(&page);
  writes.add_source(&file);
  serves.poll_once();
  writes.poll_once();
  const auto before = dir.files();
  ASSERT_EQ(before.size(), 2u);
  sweep_targets(dir.path(), rank_of(0));
  sweep_textfiles(dir.path(), rank_of(0));
  EXPECT_EQ(dir.files(), before);
  serves.remove_source(&page);
  writes.remove_source(&file);
}

// A process of its own: the lock goes with it, even if it gets no chance to say so.
TEST(StaleFiles, AKilledRanksFilesGo) {
  TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    HeldFile held;
    std::string error;
    const Identity who = rank_of(5);
    replace_file(target_path(dir.path(), who), target_json(who, "127.0.0.1:1", "http"), &held, &error);
    for (;;) pause();
  }
  for (int i = 0; i < 2000 && dir.files().empty(); ++i) usleep(5000);
  ASSERT_EQ(dir.files(), std::vector<std::string>{"stepgate_charlm_run-7_rank5.json"});
  sweep_targets(dir.path(), rank_of(0));
  EXPECT_EQ(dir.files().size(), 1u) << "it lives";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sweep_targets(dir.path(), rank_of(0));
  EXPECT_TRUE(dir.files().empty());
}

TEST(StaleFiles, AFolderThatIsNotThereIsNoFailure) {
  EXPECT_EQ(sweep_stale_files("/nonexistent/folder", ".json", "x"), 0);
}

}  // namespace
}  // namespace stepgate::metrics::test
