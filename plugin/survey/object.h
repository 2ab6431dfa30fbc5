// One loaded object of a process, this one or another: through which slots it calls NCCL, and what of NCCL
// it offers itself. Read from the object's own tables in memory, never from its file.
//
//   std::vector<ObjectSymbols> objects = survey_this_process();
//   for (const Finding& f : judge(objects)) ...          (judge.h)
//
// Thread: any. Order, lock: none of ours; this process's list of objects is walked under ld.so's own lock.
// Ownership: values. x86-64 ELF alone, as everything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace stepgate::survey {

using Address = std::uint64_t;

// Bytes of a process.
class Memory {
 public:
  virtual ~Memory() = default;
  // `bytes` of them; nullptr where they cannot be read. Valid until `scratch` is used again.
  virtual const void* view(Address at, std::size_t bytes, std::vector<char>* scratch) const = 0;
};

// Of this process: the bytes themselves. What is asked for must be mapped.
class OwnMemory : public Memory {
 public:
  const void* view(Address at, std::size_t bytes, std::vector<char>* scratch) const override;
};

struct LoadedObject {
  std::string path;
  Address bias = 0;     // what is added to the addresses in its tables
  Address dynamic = 0;  // of its dynamic section
  Address begin = 0;    // of its mapping; begin == end: not known
  Address end = 0;
};

// Where calls of an imported function go through. value: where they lead now.
struct Slot {
  std::string symbol;
  Address at = 0;
  Address value = 0;
};

struct Definition {
  std::string symbol;
  Address at = 0;
};

struct ObjectSymbols {
  LoadedObject object;
  std::string soname;
  std::vector<std::string> needed;
  std::vector<Slot> slots;              // of functions named nccl*
  std::vector<Definition> definitions;  // those of watched_functions() that it exports
  bool plugin = false;                  // it is libstepgate.so
  bool hooked = false;                  // a communicator of it went through the hooks
  bool nccl() const { return !plugin && !definitions.empty(); }
};

// What jobs call and NCCL itself does not re-enter: a slot for one of these is a caller's.
const std::vector<std::string>& watched_functions();

// False where the object's tables cannot be read; then `out` holds its name alone. Bounded in time and
// memory, whatever the tables say.
bool read_object(const Memory& memory, const LoadedObject& object, ObjectSymbols* out);

// Whether it offers NCCL's functions and is not the plugin, by its hash table alone.
bool exports_nccl(const Memory& memory, const LoadedObject& object);

// Every object of this process that has to do with NCCL; others are left out.
std::vector<ObjectSymbols> survey_this_process();
// How many of them export NCCL's functions, the plugin aside. Microseconds.
int nccl_copies_in_this_process();

}  // namespace stepgate::survey
