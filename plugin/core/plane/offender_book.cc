#include "plugin/core/plane/offender_book.h"

#include <algorithm>

namespace stepgate::plane {

void OffenderBook::add(const Offender& offender) {
  if (book_.size() == kBookOffenders) {
    book_.pop_front();
    ++lost_;
  }
  book_.push_back(offender);
}

std::vector<Offender> OffenderBook::of_step(const std::string& gate, std::uint64_t step) const {
  if (step == 0) {
    for (const Offender& o : book_) {
      if (gate == o.gate) step = std::max(step, o.step);
    }
  }
  std::vector<Offender> found;
  for (const Offender& o : book_) {
    if (o.step == step && gate == o.gate) found.push_back(o);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Offender& a, const Offender& b) { return a.rank < b.rank; });
  return found;
}

std::size_t OffenderBook::take(Offender* out, std::size_t most) {
  const std::size_t n = std::min(most, book_.size());
  std::copy_n(book_.begin(), n, out);
  book_.erase(book_.begin(), book_.begin() + static_cast<std::ptrdiff_t>(n));
  return n;
}

}  // namespace stepgate::plane
