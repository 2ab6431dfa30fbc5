// This process's objects, by ld.so's own list.
#include <elf.h>
#include <link.h>

#include <algorithm>

#include "plugin/survey/object.h"

namespace stepgate::survey {
namespace {

LoadedObject object_of(const dl_phdr_info& info) {
  LoadedObject object;
  object.path = info.dlpi_name != nullptr && *info.dlpi_name != '\0' ? info.dlpi_name : "the program";
  object.bias = info.dlpi_addr;
  object.begin = ~Address{0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const Elf64_Phdr& part = info.dlpi_phdr[i];
    const Address at = info.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_DYNAMIC) object.dynamic = at;
    if (part.p_type != PT_LOAD) continue;
    object.begin = std::min(object.begin, at);
    object.end = std::max(object.end, at + part.p_memsz);
  }
  return object;
}

template <class Function>
int with_object(dl_phdr_info* info, std::size_t, void* function) noexcept {
  try {
    const LoadedObject object = object_of(*info);
    if (object.dynamic != 0) (*static_cast<Function*>(function))(object);
    return 0;
  } catch (...) {
    return 1;  // no memory: what has been found so far is what there is
  }
}

template <class Function>
void for_each_object(Function function) {
  dl_iterate_phdr(with_object<Function>, &function);
}

}  // namespace

std::vector<ObjectSymbols> survey_this_process() {
  std::vector<ObjectSymbols> found;
  for_each_object([&found](const LoadedObject& object) {
    ObjectSymbols symbols;
    if (!read_object(OwnMemory(), object, &symbols)) return;
    if (symbols.plugin || symbols.nccl() || !symbols.slots.empty()) found.push_back(std::move(symbols));
  });
  return found;
}

int nccl_copies_in_this_process() {
  int copies = 0;
  for_each_object([&copies](const LoadedObject& object) {
    if (exports_nccl(OwnMemory(), object)) ++copies;
  });
  return copies;
}

}  // namespace stepgate::survey
