#include "core/kernels/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.h"

namespace cbwc::cpu {

template <class T>
void rotary(const Rotary<T>& a) {
  const int64_t half = a.channels / 2, row = a.heads * a.D;
  // Angles in double: a float's position times frequency loses digits at far positions.
  std::vector<double> periods;  // over 2 pi
  for (int64_t c = 0; c < half; ++c)
    periods.push_back(
        std::pow(a.base, 2 * static_cast<double>(c) / static_cast<double>(a.channels)));
  std::vector<T> cosines(static_cast<size_t>(a.tokens * half)), sines(cosines.size());
  parallel_for(a.tokens, std::max<int64_t>(1, 256 / std::max<int64_t>(1, half)),
               [&](int64_t begin, int64_t end) {
                 for (auto at = static_cast<size_t>(begin * half); begin < end; ++begin)
                   for (const double period : periods) {
                     const double angle = static_cast<double>(a.first + begin) / period;
                     cosines[at] = static_cast<T>(std::cos(angle));
                     sines[at++] = static_cast<T>(a.inverse ? -std::sin(angle) : std::sin(angle));
                   }
               });
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, row));
  parallel_for(a.batch * a.tokens, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* cosine = cosines.data() + i % a.tokens * half;
      const T* sine = sines.data() + i % a.tokens * half;
      for (int64_t h = 0; h < a.heads; ++h) {
        const T* x = a.x + i * row + h * a.D;
        T* y = a.y + i * row + h * a.D;
        for (int64_t c = 0; c < half; ++c) {
          const T x1 = x[c], x2 = x[c + half];
          y[c] = x1 * cosine[c] - x2 * sine[c];
          y[c + half] = x2 * cosine[c] + x1 * sine[c];
        }
        if (x != y) std::copy(x + a.channels, x + a.D, y + a.channels);
      }
    }
  });
}

template void rotary(const Rotary<float>&);
template void rotary(const Rotary<double>&);

}  // namespace cbwc::cpu
