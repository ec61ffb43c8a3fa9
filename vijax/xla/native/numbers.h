// Logarithms and normal quantiles. It is compiled with each file, and for each level of processors, as `vectors.h` is.
#pragma once
#include <cstdint>

#include "coefficients.h"

namespace LEVEL {
namespace {

template <int TERMS>
inline float polynomial(const float (&coefficients)[TERMS], float x) {
  float total = coefficients[TERMS - 1];
#pragma GCC unroll 16
  for (int i = TERMS - 2; i >= 0; --i) total = total * x + coefficients[i];
  return total;
}

// log x = e log 2 + log(1 + f) for 1 + f in [2/3, 4/3], to the last digits. Of normal numbers. Bits are unsigned: shifts
// of negative numbers are not defined.
inline float logarithm(float x) {
  constexpr uint32_t two_thirds = 0x3f2aaaab;
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const int32_t exponent = static_cast<int32_t>(bits - two_thirds) >> 23;
  bits -= static_cast<uint32_t>(exponent) << 23;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  f -= 1;
  const float e = static_cast<float>(exponent), square = f * f;
  return e * 0.693145752f + (f + (square * (f * polynomial(LOGARITHM, f) - 0.5f) + e * 1.42860677e-06f));
}

// The x > 0 that a normal is beyond, on either side, with probability 2p; `low` and `high` are the range of its fit.
inline float quantile(float two_p) {
  constexpr double low = 1.4142135623730951, high = 4.8;
  const float v = __builtin_sqrtf(2 - logarithm(two_p * (2 - two_p)));
  const float at = (v - static_cast<float>(low)) * static_cast<float>(2 / (high - low)) - 1;
  return (1 - two_p) * polynomial(NORMAL_QUANTILE, at);
}

// The same by Halley's steps from there: for Q(x) = erfc(x / sqrt 2), e = (Q(x) - 2p) / -Q'(x), each adds e / (1 - x e / 2).
inline double quantile(double two_p) {
  constexpr double root_half = 0.70710678118654752, density = 0.79788456080286536;
  double x = quantile(static_cast<float>(two_p > 0x1p-31 ? two_p : 0x1p-31)), step = 1;
  for (int i = 0; i < 20 && (step > 1e-5 || step < -1e-5); ++i) {
    const double e = (__builtin_erfc(x * root_half) - two_p) / (density * __builtin_exp(-0.5 * x * x));
    x += step = e / (1 - 0.5 * x * e);
  }
  return x;
}

}  // namespace
}  // namespace LEVEL
