// Keeps the transport out of forked children. A child inherits handles whose worker, sockets and
// threads belong to its parent; touching them crashes either side. So the fork handler flips one flag,
// and every call of the table asks forked() first. A process that forks before its first world leaves
// its children free to use the transport.
// Any thread; no lock. The flag is the one piece of process-wide state here: a fork is process-wide.
#pragma once

namespace stepgate::transport {

// Arms the guard: from now on children of this process are refused. Called before UCX is first used.
void arm_process_guard();

// True in a child forked after the guard was armed. Cheap enough for the hot path.
bool forked() noexcept;

}  // namespace stepgate::transport
