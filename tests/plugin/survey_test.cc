// What the survey reads out of another process is that process's word: tables that are damaged, or made to do
// harm, end in nothing found.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "plugin/survey/object.h"

namespace stepgate::survey {
namespace {

constexpr Address kBase = 0x10000;
constexpr char kNames[] = "\0ncclAllReduce\0libone.so";
constexpr std::uint64_t kSoname = 15;

// One object with a call of ncclAllReduce, as it lies in memory.
struct Image {
  Elf64_Dyn dynamic[9] = {{DT_SYMTAB, {kBase + offsetof(Image, symbols)}},
                          {DT_STRTAB, {kBase + offsetof(Image, names)}},
                          {DT_GNU_HASH, {kBase + offsetof(Image, hash)}},
                          {DT_JMPREL, {kBase + offsetof(Image, calls)}},
                          {DT_PLTRELSZ, {sizeof calls}},
                          {DT_SONAME, {kSoname}},
                          {DT_NULL, {0}}};
  Elf64_Sym symbols[2] = {{}, {1, 0, 0, SHN_UNDEF, 0, 0}};
  Elf64_Rela calls[1] = {{offsetof(Image, slot), ELF64_R_INFO(1, R_X86_64_JUMP_SLOT), 0}};
  std::uint64_t slot = 42;
  char names[sizeof kNames] = {};
  struct {
    std::uint32_t buckets = 1, first = 1, words = 1, shift = 6;
    std::uint64_t filter = 0;
    std::uint32_t bucket = 1;
  } hash;
  char rest[8192] = {};  // whoever reads on to the end of a page may

  Image() { std::memcpy(names, kNames, sizeof kNames); }
};

class Foreign : public Memory {
 public:
  explicit Foreign(const Image& image) : image_(image) {}

  const void* view(Address at, std::size_t bytes, std::vector<char>* scratch) const override {
    EXPECT_LE(bytes, std::size_t{256} << 20) << "asked for that much of a foreign process";
    EXPECT_LT(++views_, 1'000'000) << "reads for ever";
    if (views_ >= 1'000'000) return nullptr;
    if (at >= kBase && at - kBase <= sizeof image_ && bytes <= sizeof image_ - (at - kBase)) {
      return reinterpret_cast<const char*>(&image_) + (at - kBase);
    }
    if (!endless_ || at < kBase || bytes > 4096) return nullptr;
    scratch->assign(bytes, endless_byte_);
    return scratch->data();
  }
  // Behind the object lies memory without an end.
  void go_on_for_ever(char byte) {
    endless_ = true;
    endless_byte_ = byte;
  }

 private:
  const Image& image_;
  bool endless_ = false;
  char endless_byte_ = 0;
  mutable int views_ = 0;
};

LoadedObject object() {
  LoadedObject o;
  o.bias = o.begin = kBase;
  o.end = kBase + sizeof(Image);
  o.dynamic = kBase + offsetof(Image, dynamic);
  return o;
}

TEST(Survey, AnObjectsCallsAreRead) {
  const Image image;
  ObjectSymbols found;
  ASSERT_TRUE(read_object(Foreign(image), object(), &found));
  EXPECT_EQ(found.soname, "libone.so");
  ASSERT_EQ(found.slots.size(), 1u);
  EXPECT_EQ(found.slots[0].symbol, "ncclAllReduce");
  EXPECT_EQ(found.slots[0].value, 42u);
}

TEST(Survey, ATableOfAnImpossibleSizeIsNotRead) {
  for (const std::uint64_t size : {std::uint64_t{1} << 29, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    Image image;
    image.dynamic[4].d_un.d_val = size;
    ObjectSymbols found;
    EXPECT_TRUE(read_object(Foreign(image), object(), &found)) << size;
    EXPECT_TRUE(found.slots.empty()) << size;
  }
}

// Entries of an unknown kind, up to where the process ends: never.
TEST(Survey, ADynamicSectionWithoutAnEndIsGivenUp) {
  Image image;
  for (Elf64_Dyn& entry : image.dynamic) entry = {0x01010101, {0}};
  LoadedObject o = object();
  o.dynamic = kBase + sizeof(Image);
  Foreign memory(image);
  memory.go_on_for_ever(1);
  ObjectSymbols found;
  EXPECT_FALSE(read_object(memory, o, &found));
}

TEST(Survey, AHashTableWithoutAnEndIsGivenUp) {
  Image image;
  image.hash.filter = ~std::uint64_t{0};
  image.hash.bucket = 1'000'000;  // far behind the object, where no chain ends
  Foreign memory(image);
  memory.go_on_for_ever(2);
  ObjectSymbols found;
  EXPECT_TRUE(read_object(memory, object(), &found));
  EXPECT_FALSE(found.nccl());
}

TEST(Survey, AHashTableThatShiftsTooFarHasNothing) {
  Image image;
  image.hash.filter = ~std::uint64_t{0};
  image.hash.shift = 64;
  ObjectSymbols found;
  EXPECT_TRUE(read_object(Foreign(image), object(), &found));
  EXPECT_FALSE(found.nccl());
}

}  // namespace
}  // namespace stepgate::survey
