#include "autograd/analysis/lane.h"

namespace cbwc {
namespace {

int64_t trailing(const Shape& shape, int axis) {
  int64_t n = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

}  // namespace

Lane whole_axis(const Shape& shape, int axis) {
  if (axis < 0) axis += static_cast<int>(shape.size());
  CBWC_CHECK(axis >= 0 && axis < static_cast<int>(shape.size()), "lane: no axis ", axis, " in ",
             to_string(shape));
  return {axis, 0, shape[axis], shape[axis]};
}

bool is_whole(const Lane& lane, const Shape& shape) {
  const int64_t n = shape[lane.axis];
  return lane.start == 0 && lane.end == n && lane.block == n;
}

std::string to_string(const Lane& lane) {
  return "axis " + std::to_string(lane.axis) + " [" + std::to_string(lane.start) + ", " +
         std::to_string(lane.end) + ") by " + std::to_string(lane.block);
}

std::optional<Lane> reshaped(const Lane& lane, const Shape& from, const Shape& to) {
  const int64_t n = from[lane.axis], stride = trailing(from, lane.axis);
  const bool all = lane.start == 0 && lane.end == n;
  if (n == 0 || lane.block == 0) return std::nullopt;
  for (int b = static_cast<int>(to.size()) - 1; b >= 0; --b) {
    const int64_t m = to[b];
    // Axes of one element share their stride with a neighbour, which is the one meant.
    if (trailing(to, b) != stride || m == 0 || (m == 1 && n != 1)) continue;
    if (m == n) return Lane{b, lane.start, lane.end, lane.block};
    if (m % n == 0) {  // merged with axes to its left: every group again and again
      if (all) return Lane{b, 0, m, lane.block};
      const bool even = n % lane.block == 0 && lane.start % lane.block == 0;
      return even ? std::optional(Lane{b, 0, m, lane.block}) : std::nullopt;
    }
    if (n % m == 0) {  // split, this being the inner part
      if (lane.block % m == 0 && lane.start % m == 0) return Lane{b, 0, m, m};
      if (m % lane.block == 0 && lane.start % lane.block == 0) return Lane{b, 0, m, lane.block};
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace cbwc
