#include <map>

#include "autograd/analysis/zero_mean.h"
#include "tests/support/catch.h"
#include "tests/support/lanes.h"

using namespace cbwc;
using namespace cbwc::testing;

namespace {

std::vector<Lane> all_lanes(const Shape& shape) {
  std::vector<Lane> lanes;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis)
    for (int64_t start = 0; start < shape[axis]; ++start)
      for (int64_t end = start + 1; end <= shape[axis]; ++end)
        for (int64_t block = 1; block <= end - start; ++block)
          if ((end - start) % block == 0) lanes.push_back({axis, start, end, block});
  return lanes;
}

// The two uses of a reshaped lane ask the same of it: it covers the old one, and each of its groups
// lies within one of the old groups or outside all of them.
bool refines(const std::vector<int>& fine, const std::vector<int>& old) {
  std::map<int, int> within;
  for (size_t i = 0; i < fine.size(); ++i) {
    if (fine[i] < 0 && old[i] >= 0) return false;
    if (fine[i] < 0) continue;
    if (within.try_emplace(fine[i], old[i]).first->second != old[i]) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a reshaped lane covers and refines the old one, by brute force") {
  const std::vector<Shape> shapes = {{12},      {3, 4},       {4, 3},    {2, 6},    {6, 2},
                                     {1, 12},   {12, 1},      {2, 3, 2}, {3, 2, 2}, {2, 2, 3},
                                     {3, 1, 4}, {1, 3, 1, 4}, {2, 1, 6}, {1, 1, 12}};
  int found = 0, exact = 0, missed = 0;
  for (const Shape& from : shapes) {
    for (const Shape& to : shapes) {
      for (const Lane& lane : all_lanes(from)) {
        const std::vector<int> old = lane_groups(lane, from);
        const std::optional<Lane> got = reshaped(lane, from, to);
        INFO(to_string(from) << " to " << to_string(to) << ", " << to_string(lane) << " -> "
                             << (got ? to_string(*got) : "none"));
        bool possible = false;  // some lane has exactly these groups
        for (const Lane& other : all_lanes(to)) {
          const std::vector<int> groups = lane_groups(other, to);
          possible = possible || (refines(groups, old) && refines(old, groups));
        }
        missed += possible && !got && lane.block > 1 ? 1 : 0;
        exact += possible ? 1 : 0;
        if (!got) continue;
        ++found;
        if (!refines(lane_groups(*got, to), old)) CHECK(false);
      }
    }
  }
  INFO("found " << found << ", exactly expressible " << exact << ", missed " << missed);
  CHECK(found > 2000);
  CHECK(missed * 50 < exact);
}
