// Lane: the groups of a value's elements that a fact is about (Note [Zero-mean streams]).
#pragma once
#include <compare>
#include <optional>
#include <string>

#include "core/tensor.h"

namespace cbwc {

// The groups that lie along one axis: of the indices [start, end) every consecutive `block`, for
// each choice of the other indices. `block` divides end - start.
struct Lane {
  int axis = 0;
  int64_t start = 0, end = 0, block = 0;
  bool empty() const { return start >= end; }
  auto operator<=>(const Lane&) const = default;
};
Lane whole_axis(const Shape& shape, int axis);  // one group: the whole axis; axis may be negative
bool is_whole(const Lane& lane, const Shape& shape);
std::string to_string(const Lane& lane);

// The lane after a reshape, the flat order being the same. Where it is only partly expressible a
// finer or wider one: fine for a zero mean to be asked for, and for a shift to be feared.
std::optional<Lane> reshaped(const Lane& lane, const Shape& from, const Shape& to);

}  // namespace cbwc
