// Checks on the text of tracked files. Each returns one sentence per problem.
//
// Thread: any; functions without state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/repo/source_tree.h"

namespace stepgate::repo {

inline constexpr std::size_t kMaxLines = 400;

// Paths of one machine, package hosts and addresses that a stranger's checkout cannot have.
std::vector<std::string> check_words(const SourceFile& file);

// A header says #pragma once (or has the classic guard) and opens with a comment.
std::vector<std::string> check_header_opening(const SourceFile& file);

// Every GTEST_SKIP carries a reason.
std::vector<std::string> check_skip_reasons(const SourceFile& file);

// getenv outside a comment: the environment is read in the few files that texts_test.cc lists.
std::vector<std::string> check_environment(const SourceFile& file);

// "NAME | REASON" lines; comments and empty lines are dropped. Throws when a reason is missing.
using Listed = std::vector<std::pair<std::string, std::string>>;
Listed parse_listed(const std::vector<std::string>& lines);

// Files over kMaxLines that are not listed, and listed ones that are not over it (or not there).
std::vector<std::string> check_lengths(const std::vector<SourceFile>& files, const Listed& listed);

}  // namespace stepgate::repo
