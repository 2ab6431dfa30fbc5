// What may become a label: one bad byte makes a metrics page unreadable.
#include "plugin/core/label_text.h"

#include <gtest/gtest.h>

#include <string>

namespace stepgate::gate {
namespace {

TEST(LabelText, Table) {
  const struct {
    std::string text;
    bool good;
  } rows[] = {
      {"", true},
      {"layer.1/weight \"x\" \\", true},
      {"\xc3\xbc", true},          // two bytes
      {"\xe2\x82\xac", true},      // three
      {"\xf0\x9f\x98\x80", true},  // four
      {"\xf4\x8f\xbf\xbf", true},  // the last code point
      {"a\nb", false},
      {"a\tb", false},
      {std::string("a\0b", 3), false},
      {"\x7f", false},
      {"\xc2\x85", false},  // a control character of two bytes
      {"\xff", false},
      {"\x80", false},  // a follower alone
      {"\xc3", false},  // cut
      {"\xe2\x82", false},
      {"\xc3z", false},
      {"\xc0\xaf", false},  // longer than needed
      {"\xe0\x80\xaf", false},
      {"\xf0\x80\x80\xaf", false},
      {"\xed\xa0\x80", false},      // half of a surrogate pair
      {"\xf4\x90\x80\x80", false},  // beyond the last code point
      {"\xf5\x80\x80\x80", false},
  };
  for (const auto& row : rows)
    EXPECT_EQ(is_label_text(row.text), row.good) << testing::PrintToString(row.text);
}

TEST(LabelText, WhatMayNotBeThereBecomesAQuestionMark) {
  const std::pair<const char*, const char*> rows[] = {
      {"", ""},
      {"run \xc3\xa9 1", "run \xc3\xa9 1"},
      {"a\n\x1b[2Jb", "a??[2Jb"},
      {"\x7f\xc2\x85z", "???z"},
      {"\xff\xc3\xa9\xc3", "?\xc3\xa9?"},  // cut at its end
  };
  for (const auto& [text, good] : rows) {
    EXPECT_EQ(as_label_text(text), good) << testing::PrintToString(text);
    EXPECT_TRUE(is_label_text(as_label_text(text))) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace stepgate::gate
