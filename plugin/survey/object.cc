#include "plugin/survey/object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace stepgate::survey {
namespace {

// What another process's tables say is its word alone: beyond these they are damaged, or made to do harm.
constexpr Address kMostTableBytes = Address{256} << 20;
constexpr int kMostDynamicEntries = 4096;
constexpr int kLongestChain = 4096;

// What the dynamic section says.
struct Tables {
  Address symbols = 0, strings = 0, hash = 0;
  Address calls = 0, calls_bytes = 0;                   // DT_JMPREL
  Address data = 0, data_bytes = 0, data_relative = 0;  // DT_RELA
  std::uint64_t soname = 0;
  std::vector<std::uint64_t> needed;
};

template <class T>
bool read_value(const Memory& memory, Address at, T* out) {
  std::vector<char> scratch;
  const void* bytes = memory.view(at, sizeof(T), &scratch);
  if (bytes == nullptr) return false;
  std::memcpy(out, bytes, sizeof(T));
  return true;
}

// In pieces that do not cross a page, so that the end of a mapping is no error.
std::string read_text(const Memory& memory, Address at) {
  std::string text;
  std::vector<char> scratch;
  while (text.size() < 4096) {
    const std::size_t piece = 4096 - at % 4096;
    const auto* bytes = static_cast<const char*>(memory.view(at, piece, &scratch));
    if (bytes == nullptr) break;
    const std::size_t length = strnlen(bytes, piece);
    text.append(bytes, length);
    if (length < piece) break;
    at += piece;
  }
  return text;
}

bool starts_with_nccl(const Memory& memory, Address at) {
  char head[4];
  return read_value(memory, at, &head) && std::memcmp(head, "nccl", 4) == 0;
}

bool read_tables(const Memory& memory, const LoadedObject& object, Tables* t) {
  // ld.so adds the bias to most of these in memory; where it could not write, they are still bare.
  const auto place = [&](Address a) { return a < object.bias ? a + object.bias : a; };
  Elf64_Dyn entry{};
  Address at = object.dynamic;
  for (int i = 0; i < kMostDynamicEntries && read_value(memory, at, &entry); ++i, at += sizeof entry) {
    switch (entry.d_tag) {
      case DT_NULL: return t->symbols != 0 && t->strings != 0;
      case DT_SYMTAB: t->symbols = place(entry.d_un.d_ptr); break;
      case DT_STRTAB: t->strings = place(entry.d_un.d_ptr); break;
      case DT_GNU_HASH: t->hash = place(entry.d_un.d_ptr); break;
      case DT_JMPREL: t->calls = place(entry.d_un.d_ptr); break;
      case DT_PLTRELSZ: t->calls_bytes = entry.d_un.d_val; break;
      case DT_RELA: t->data = place(entry.d_un.d_ptr); break;
      case DT_RELASZ: t->data_bytes = entry.d_un.d_val; break;
      case DT_RELACOUNT: t->data_relative = entry.d_un.d_val; break;
      case DT_SONAME: t->soname = entry.d_un.d_val; break;
      case DT_NEEDED: t->needed.push_back(entry.d_un.d_val); break;
      default: break;
    }
  }
  return false;
}

std::uint32_t gnu_hash(const char* name) {
  std::uint32_t h = 5381;
  for (; *name != '\0'; ++name) h = h * 33 + static_cast<unsigned char>(*name);
  return h;
}

// The address of a symbol that the object exports, by its hash table; 0 where it has none.
Address defined(const Memory& memory, const LoadedObject& object, const Tables& t, const char* name) {
  std::uint32_t head[4];  // buckets, first symbol, words of the filter, shift
  if (t.hash == 0 || !read_value(memory, t.hash, &head) || head[0] == 0 || head[2] == 0) return 0;
  if (head[3] >= 32) return 0;
  const std::uint32_t h = gnu_hash(name);
  const Address filter = t.hash + sizeof head, buckets = filter + 8ull * head[2];
  std::uint64_t word = 0;
  if (!read_value(memory, filter + 8ull * (h / 64 % head[2]), &word)) return 0;
  if ((word >> (h % 64) & 1) == 0 || (word >> ((h >> head[3]) % 64) & 1) == 0) return 0;
  std::uint32_t index = 0, chain = 0;
  if (!read_value(memory, buckets + 4ull * (h % head[0]), &index) || index < head[1]) return 0;
  const Address chains = buckets + 4ull * head[0];
  for (int i = 0; i < kLongestChain; ++i, ++index) {
    if (!read_value(memory, chains + 4ull * (index - head[1]), &chain)) return 0;
    Elf64_Sym symbol{};
    if ((chain | 1) == (h | 1) && read_value(memory, t.symbols + sizeof symbol * index, &symbol) &&
        symbol.st_shndx != SHN_UNDEF && read_text(memory, t.strings + symbol.st_name) == name) {
      return object.bias + symbol.st_value;
    }
    if ((chain & 1) != 0) return 0;
  }
  return 0;
}

void read_slots(const Memory& memory, const LoadedObject& object, const Tables& t, Address table,
                Address bytes, Address skipped, std::vector<Slot>* out) {
  std::vector<char> scratch;
  const Address first = table + skipped * sizeof(Elf64_Rela);
  const std::size_t count = bytes / sizeof(Elf64_Rela);
  if (table == 0 || count <= skipped || (count - skipped) * sizeof(Elf64_Rela) > kMostTableBytes) return;
  const void* all = memory.view(first, (count - skipped) * sizeof(Elf64_Rela), &scratch);
  if (all == nullptr) return;
  const auto* relocations = static_cast<const char*>(all);
  for (std::size_t i = 0; i < count - skipped; ++i) {
    Elf64_Rela r;
    std::memcpy(&r, relocations + i * sizeof r, sizeof r);
    const std::uint32_t type = static_cast<std::uint32_t>(ELF64_R_TYPE(r.r_info));
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
    Elf64_Sym symbol{};
    if (!read_value(memory, t.symbols + sizeof symbol * ELF64_R_SYM(r.r_info), &symbol)) return;
    if (!starts_with_nccl(memory, t.strings + symbol.st_name)) continue;
    Slot slot{read_text(memory, t.strings + symbol.st_name), object.bias + r.r_offset, 0};
    if (read_value(memory, slot.at, &slot.value)) out->push_back(std::move(slot));
  }
}

}  // namespace

const void* OwnMemory::view(Address at, std::size_t, std::vector<char>*) const {
  return reinterpret_cast<const void*>(at);
}

const std::vector<std::string>& watched_functions() {
  // Never destroyed: asked while the process exits.
  static const auto* const names = new std::vector<std::string>{
      "ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommInitRankScalable", "ncclCommInitAll",
      "ncclCommSplit",    "ncclAllReduce",          "ncclReduceScatter",        "ncclReduce",
      "ncclAllGather"};
  return *names;
}

bool read_object(const Memory& memory, const LoadedObject& object, ObjectSymbols* out) {
  out->object = object;
  Tables t;
  if (!read_tables(memory, object, &t)) return false;
  if (t.soname != 0) out->soname = read_text(memory, t.strings + t.soname);
  for (const std::uint64_t name : t.needed) out->needed.push_back(read_text(memory, t.strings + name));
  out->plugin = defined(memory, object, t, "stepgate_api_version") != 0;
  for (const std::string& name : watched_functions()) {
    if (const Address at = defined(memory, object, t, name.c_str())) out->definitions.push_back({name, at});
  }
  read_slots(memory, object, t, t.calls, t.calls_bytes, 0, &out->slots);
  read_slots(memory, object, t, t.data, t.data_bytes, t.data_relative, &out->slots);
  return true;
}

bool exports_nccl(const Memory& memory, const LoadedObject& object) {
  Tables t;
  return read_tables(memory, object, &t) && defined(memory, object, t, "ncclAllReduce") != 0 &&
         defined(memory, object, t, "stepgate_api_version") == 0;
}

}  // namespace stepgate::survey
