// The modes of guest_worker, each a program of its own. They print what they found; manners_test.cc
// judges it.
//
// Thread: main. Order: one of them per process.
#pragma once

#include "tests/plugin/guest/job.h"

namespace stepgate::test {

// Start-up and then every hooked function and every lifecycle call, with the process's state compared
// around each.
int mode_calls(const Where& where);
// Children of all kinds after start-up; the parent goes on.
int mode_fork(const Where& where);
// Handlers and destructors of the job around the plugin's own.
int mode_exit_order(const Where& where);
// exit() while other threads are inside of hooks and steps.
int mode_busy_exit(const Where& where);
// Calls that fail: before exit(), and in a handler.
int mode_refused_exit(const Where& where);
// The metrics folder hangs: gates come and go, steps run, the process ends.
int mode_hung_files(const Where& where);
// Waits to be killed.
int mode_wait(const Where& where);
// Drops the rights of a root process in the middle of a job.
int mode_setuid(const Where& where);

}  // namespace stepgate::test
