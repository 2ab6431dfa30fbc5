// A child that cannot touch its parent without being caught: what it inherited and shares is made
// read-only, and the calls that reach sockets, event sets, files and other processes kill it.
//
// Thread: the one thread of a forked child. Order: right after fork(). Nothing undoes it.
#pragma once

namespace stepgate::test {

// Ends the child with status 3 where the kernel refuses.
void lock_in_child();

}  // namespace stepgate::test
