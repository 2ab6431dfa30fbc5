// Which ways to NCCL the hooks do not see, from what the loaded objects show.
//
// Thread: any. Order, lock: none. Ownership: values. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "plugin/survey/object.h"

namespace stepgate::survey {

// Values are positions in kCauseNames, the label `cause` of stepgate_hooks_missed_total.
enum class Cause : std::uint32_t {
  kUnhooked = 0,  // a communicator that no hook saw made; nothing shows why
  kDeepbind = 1,  // calls are bound past the hooks
  kDlsym = 2,     // looked up on the library's handle
  kHidden = 3,    // NCCL is inside the caller and bound there
  kTailCall = 4,  // the caller of a hook is not visible, and there are several NCCL copies
};
inline constexpr std::size_t kCauses = 5;
inline constexpr const char* kCauseNames[kCauses] = {"unhooked", "deepbind", "dlsym", "hidden", "tail_call"};

struct Finding {
  Cause cause = Cause::kUnhooked;
  std::string object;
  std::string text;    // what was found
  std::string remedy;  // what to do about it
};

enum class Binding {
  kHooked,
  kPast,    // to an NCCL copy
  kPending  // not yet bound, or to some other library in between
};
Binding binding_of(const Slot& slot, const ObjectSymbols& caller, const std::vector<ObjectSymbols>& all);

// The slots of a caller that jobs call through.
bool is_watched(const Slot& slot);
// A library of NCCL's own, rather than a caller with NCCL inside.
bool is_nccl_library(const ObjectSymbols& object);

std::vector<Finding> judge(const std::vector<ObjectSymbols>& all);

}  // namespace stepgate::survey
