// All-reduces over the mailbox (mailbox.h): what their letters say, and the short one. Thread: the world's.
// Order: tickets as the collectives start. Ownership: all pointers live until the strand is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/ucx/algorithms.h"
#include "collectives/ucx/mailbox.h"

namespace stepgate::transport {

// A collective's place in the mailbox's order, and in the world's.
struct Ticket {
  uint32_t number;
  uint32_t sequence;
  bool posted = false;  // its letter is in the box already
};

// All letters of this step have arrived. False: some rank's is not like `mine`.
bool letters_agree(const Mailbox& box, Place place, const Mailbox::Head& mine, Failure* failure);
// recv may be send. The bodies are of `count` elements; count is not 0 and there are two ranks at least.
void combine_letters(const Mailbox& box, Place place, const Reducer& reducer, ScratchPool& pool,
                     const void* send, void* recv, size_t count);

Strand letter_allreduce(Lane& lane, Place place, const Reducer& reducer, ScratchPool& pool, Mailbox& box,
                        Ticket ticket, const void* send, void* recv, size_t count);

}  // namespace stepgate::transport
