#include "integration/command/check/process.h"

#include <elf.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "integration/command/check/hidden_nccl.h"
#include "plugin/survey/tail_calls.h"

namespace stepgate::command {
namespace {

using survey::Address;
using survey::LoadedObject;
using survey::ObjectSymbols;

class RemoteMemory : public survey::Memory {
 public:
  explicit RemoteMemory(pid_t pid) : pid_(pid) {}
  const void* view(Address at, std::size_t bytes, std::vector<char>* scratch) const override {
    scratch->resize(bytes);
    const iovec here = {scratch->data(), bytes};
    const iovec there = {reinterpret_cast<void*>(at), bytes};
    const ssize_t got = process_vm_readv(pid_, &here, 1, &there, 1, 0);
    return got == static_cast<ssize_t>(bytes) ? scratch->data() : nullptr;
  }

 private:
  pid_t pid_;
};

std::string proc(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

std::string command_line(pid_t pid) {
  std::ifstream file(proc(pid, "cmdline"), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

// Mapped files by where they begin: the mapping of a file's first byte, once each.
std::vector<LoadedObject> mapped_files(pid_t pid) {
  std::vector<LoadedObject> found;
  std::ifstream maps(proc(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, rights, offset, device, inode, path;
    words >> range >> rights >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (!path.starts_with("/") || offset.find_first_not_of('0') != std::string::npos) continue;
    LoadedObject object;
    object.path = path;
    object.begin = std::stoull(range, nullptr, 16);
    found.push_back(object);
  }
  return found;
}

// Completes what the file's header in memory says. False where it is no loaded object.
bool read_header(const survey::Memory& memory, LoadedObject* object) {
  std::vector<char> scratch;
  Elf64_Ehdr header{};
  const void* head = memory.view(object->begin, sizeof header, &scratch);
  if (head == nullptr || std::memcmp(head, ELFMAG, SELFMAG) != 0) return false;
  std::memcpy(&header, head, sizeof header);
  const std::size_t bytes = header.e_phnum * sizeof(Elf64_Phdr);
  const void* all = memory.view(object->begin + header.e_phoff, bytes, &scratch);
  if (all == nullptr) return false;
  std::vector<Elf64_Phdr> parts(header.e_phnum);
  std::memcpy(parts.data(), all, bytes);
  const auto first =
      std::find_if(parts.begin(), parts.end(), [](const auto& p) { return p.p_type == PT_LOAD; });
  if (first == parts.end()) return false;
  object->bias = object->begin - (first->p_vaddr & ~Address{4095});
  for (const Elf64_Phdr& part : parts) {
    if (part.p_type == PT_DYNAMIC) object->dynamic = object->bias + part.p_vaddr;
    if (part.p_type == PT_LOAD) {
      object->end = std::max(object->end, object->bias + part.p_vaddr + part.p_memsz);
    }
  }
  return object->dynamic != 0;
}

void look_at_objects(const std::vector<ObjectSymbols>& all, ProcessFindings* found) {
  for (const ObjectSymbols& o : all) {
    if (o.plugin) found->plugin = o.object.path;
    if (o.nccl()) found->nccl.push_back({o.object.path, ""});
    if (o.plugin || survey::is_nccl_library(o)) continue;
    int hooked = 0, watched = 0;
    for (const survey::Slot& slot : o.slots) {
      if (!survey::is_watched(slot)) continue;
      ++watched;
      hooked += survey::binding_of(slot, o, all) == survey::Binding::kHooked;
    }
    const bool past = std::any_of(found->missed.begin(), found->missed.end(),
                                  [&](const survey::Finding& f) { return f.object == o.object.path; });
    if (hooked > 0) found->hooked.push_back(o.object.path);
    if (hooked == 0 && watched > 0 && !past) found->pending.push_back(o.object.path);
  }
}

void look_for_tail_calls(const survey::Memory& memory, const std::vector<ObjectSymbols>& all,
                         ProcessFindings* found) {
  if (found->nccl.size() < 2) return;
  for (const ObjectSymbols& o : all) {
    if (o.plugin || survey::is_nccl_library(o)) continue;
    const std::vector<std::string> names = survey::tail_called(memory, o);
    if (names.empty()) continue;
    found->missed.push_back({survey::Cause::kTailCall, o.object.path,
                             o.object.path + " passes " + names.front() +
                                 " on as its last act: the hook cannot see which of the NCCL copies it means",
                             "compile it with -fno-optimize-sibling-calls, or keep one NCCL in the process"});
  }
}

void look_for_hidden(pid_t pid, const std::vector<LoadedObject>& objects,
                     const std::vector<ObjectSymbols>& known, ProcessFindings* found) {
  std::vector<std::string> seen;
  for (const LoadedObject& object : objects) {
    const auto is_known = [&](const ObjectSymbols& o) { return o.object.path == object.path; };
    const auto it = std::find_if(known.begin(), known.end(), is_known);
    if (it != known.end() && (it->plugin || it->nccl())) continue;
    if (std::find(seen.begin(), seen.end(), object.path) != seen.end()) continue;
    seen.push_back(object.path);
    if (!has_nccl_inside(proc(pid, "root") + object.path)) continue;
    found->missed.push_back({survey::Cause::kHidden, object.path,
                             object.path + " has NCCL inside and does not export it (--exclude-libs, hidden "
                                           "or renamed symbols)",
                             "link it to libnccl.so.2, or with NCCL's symbols exported"});
  }
}

}  // namespace

ProcessFindings look_at_process(pid_t pid) {
  ProcessFindings found;
  found.pid = pid;
  found.program = command_line(pid);
  std::vector<LoadedObject> objects = mapped_files(pid);
  const RemoteMemory memory(pid);
  std::vector<char> scratch;
  if (objects.empty() || memory.view(objects.front().begin, 1, &scratch) == nullptr) {
    const bool there = std::ifstream(proc(pid, "stat")).good();
    found.error = there ? std::string("its memory cannot be read: ") + std::strerror(errno)
                        : "there is no such process";
    return found;
  }
  std::erase_if(objects, [&](LoadedObject& object) { return !read_header(memory, &object); });
  std::vector<ObjectSymbols> all;
  for (const LoadedObject& object : objects) {
    ObjectSymbols symbols;
    if (!survey::read_object(memory, object, &symbols)) continue;
    if (symbols.plugin || symbols.nccl() || !symbols.slots.empty()) all.push_back(std::move(symbols));
  }
  found.missed = survey::judge(all);
  look_at_objects(all, &found);
  look_for_tail_calls(memory, all, &found);
  look_for_hidden(pid, objects, all, &found);
  for (MappedNccl& nccl : found.nccl) nccl.version = nccl_version_in(proc(pid, "root") + nccl.path);
  return found;
}

}  // namespace stepgate::command
