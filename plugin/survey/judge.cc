#include "plugin/survey/judge.h"

#include <algorithm>

namespace stepgate::survey {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

const ObjectSymbols* object_at(Address at, const std::vector<ObjectSymbols>& all) {
  for (const ObjectSymbols& o : all) {
    if (at >= o.object.begin && at < o.object.end) return &o;
  }
  return nullptr;
}

// Somebody is linked to this copy: itself, or by name. One who names no NCCL may mean any.
bool has_caller(const ObjectSymbols& copy, const std::vector<ObjectSymbols>& all) {
  return std::any_of(all.begin(), all.end(), [&](const ObjectSymbols& o) {
    if (o.plugin || is_nccl_library(o) || std::none_of(o.slots.begin(), o.slots.end(), is_watched))
      return false;
    if (&o == &copy) return true;
    if (o.nccl()) return false;  // its own
    const bool names_one = std::any_of(o.needed.begin(), o.needed.end(),
                                       [](const std::string& n) { return n.starts_with("libnccl.so"); });
    if (!names_one) return true;
    const std::string name = copy.soname.empty() ? file_name(copy.object.path) : copy.soname;
    return std::find(o.needed.begin(), o.needed.end(), name) != o.needed.end();
  });
}

Finding bound_past(const ObjectSymbols& o, const Slot& slot, const ObjectSymbols& target) {
  return {Cause::kDeepbind, o.object.path,
          o.object.path + " calls " + slot.symbol + " of " + target.object.path +
              " past the hooks: it was loaded with RTLD_DEEPBIND, or before the plugin",
          "load it without RTLD_DEEPBIND, and the plugin by LD_PRELOAD"};
}

Finding nobody_linked(const ObjectSymbols& copy) {
  const std::string& path = copy.object.path;
  if (is_nccl_library(copy)) {
    return {
        Cause::kDlsym, path,
        path +
            " is loaded, and nothing is linked to it: whoever uses it looks its functions up with dlsym "
            "on its handle, which the hooks do not see",
        "take the functions from the global scope (dlsym(RTLD_DEFAULT, ...), ctypes.CDLL(None)), or link"};
  }
  return {Cause::kHidden, path,
          path + " has NCCL inside and its calls of it bound there (-Bsymbolic, -Bsymbolic-functions)",
          "link it without that option, or to libnccl.so.2"};
}

}  // namespace

bool is_watched(const Slot& slot) {
  const std::vector<std::string>& names = watched_functions();
  return std::find(names.begin(), names.end(), slot.symbol) != names.end();
}

bool is_nccl_library(const ObjectSymbols& o) {
  return o.nccl() &&
         (o.soname.starts_with("libnccl.so") || file_name(o.object.path).starts_with("libnccl.so"));
}

Binding binding_of(const Slot& slot, const ObjectSymbols& caller, const std::vector<ObjectSymbols>& all) {
  const ObjectSymbols* target = object_at(slot.value, all);
  if (target == nullptr) return Binding::kPending;
  if (target->plugin) return Binding::kHooked;
  if (!target->nccl()) return Binding::kPending;
  if (target != &caller) return Binding::kPast;
  // Into itself: to the stub that will bind it, or to the function.
  return std::any_of(caller.definitions.begin(), caller.definitions.end(),
                     [&](const Definition& d) { return d.at == slot.value; })
             ? Binding::kPast
             : Binding::kPending;
}

std::vector<Finding> judge(const std::vector<ObjectSymbols>& all) {
  std::vector<Finding> found;
  for (const ObjectSymbols& o : all) {
    if (o.plugin) continue;
    if (!is_nccl_library(o)) {
      for (const Slot& slot : o.slots) {
        if (!is_watched(slot) || binding_of(slot, o, all) != Binding::kPast) continue;
        found.push_back(bound_past(o, slot, *object_at(slot.value, all)));
        break;  // one of its calls tells
      }
    }
    // Whoever takes the functions from the global scope is linked to nothing either, and is seen. Calls that
    // a library binds inside of itself are not seen because of somebody else's communicator.
    const bool seen = o.hooked && is_nccl_library(o);
    if (o.nccl() && !seen && !has_caller(o, all)) found.push_back(nobody_linked(o));
  }
  return found;
}

}  // namespace stepgate::survey
