// What a forked child must not hold on to: a listening socket that it inherits would keep the port taken
// for as long as the child lives, after its parent has ended. Children close what is named here.
//
// Thread: any. The handler runs in the child and makes no call but close(). State: a few descriptor
// numbers for the life of the process.
#pragma once

namespace stepgate::plane {

// False where there is no room: the child then keeps its copy.
bool close_in_children(int fd) noexcept;
void keep_in_children(int fd) noexcept;

}  // namespace stepgate::plane
