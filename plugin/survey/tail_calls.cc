#include "plugin/survey/tail_calls.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "plugin/survey/judge.h"

namespace stepgate::survey {
namespace {

struct Code {
  Address at = 0;
  std::vector<unsigned char> bytes;
};

std::vector<Code> code_of(const Memory& memory, const LoadedObject& object) {
  std::vector<char> scratch;
  Elf64_Ehdr header{};
  const void* head = memory.view(object.begin, sizeof header, &scratch);
  if (head == nullptr) return {};
  std::memcpy(&header, head, sizeof header);
  std::vector<Code> parts;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part{};
    const void* at = memory.view(object.begin + header.e_phoff + i * sizeof part, sizeof part, &scratch);
    if (at == nullptr) return parts;
    std::memcpy(&part, at, sizeof part);
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const Address from = object.bias + part.p_vaddr;
    const auto* bytes = static_cast<const unsigned char*>(memory.view(from, part.p_filesz, &scratch));
    if (bytes != nullptr) parts.push_back({from, {bytes, bytes + part.p_filesz}});
  }
  return parts;
}

std::int32_t word_at(const unsigned char* bytes) {
  std::int32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

// `jmp *slot(%rip)` (ff 25) is a function's stub; `jmp stub` (e9) is a tail call. A stub may begin with
// endbr64 (4 bytes) or a bnd prefix (1 byte).
std::vector<std::string> tail_called(const Memory& memory, const ObjectSymbols& object) {
  std::map<Address, std::string> slots, stubs;
  for (const Slot& slot : object.slots) {
    if (is_watched(slot)) slots[slot.at] = slot.symbol;
  }
  if (slots.empty()) return {};
  const std::vector<Code> parts = code_of(memory, object.object);
  for (const Code& part : parts) {
    for (std::size_t i = 0; i + 6 <= part.bytes.size(); ++i) {
      if (part.bytes[i] != 0xff || part.bytes[i + 1] != 0x25) continue;
      const Address here = part.at + i;
      const auto slot =
          slots.find(here + 6 + static_cast<Address>(std::int64_t{word_at(&part.bytes[i + 2])}));
      if (slot == slots.end()) continue;
      for (const Address before : {0, 1, 4, 5}) stubs[here - before] = slot->second;
    }
  }
  std::set<std::string> found;
  for (const Code& part : parts) {
    for (std::size_t i = 0; i + 5 <= part.bytes.size(); ++i) {
      if (part.bytes[i] != 0xe9) continue;
      const auto stub =
          stubs.find(part.at + i + 5 + static_cast<Address>(std::int64_t{word_at(&part.bytes[i + 1])}));
      if (stub != stubs.end()) found.insert(stub->second);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace stepgate::survey
