// Numbers side by side. It is compiled with each file, and for each level of processors: nothing of it may be an inline
// function that the linker sees, for it would keep one copy, of any level.
#pragma once
#include <stdlib.h>

#include <cstdint>

namespace LEVEL {
namespace {

// Topics go through the processor in vectors of 64 bytes; rows of scratch are filled up with zeros to whole ones.
template <class T>
using Vector __attribute__((vector_size(64))) = T;
template <class T>
constexpr int64_t WIDTH = 64 / sizeof(T);
template <class T>
int64_t num_vectors(int64_t topics) {
  return (topics + WIDTH<T> - 1) / WIDTH<T>;
}

// Halves are added to each other until one number is left.
#if defined(__clang__)
#define SHUFFLED(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#else
#define SHUFFLED(x, ...) __builtin_shuffle(x, decltype((x) < (x)){__VA_ARGS__})
#endif
inline float sum(Vector<float> x) {
  x += SHUFFLED(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  x += SHUFFLED(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  x += SHUFFLED(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return x[0] + x[1];
}
inline double sum(Vector<double> x) {
  x += SHUFFLED(x, 4, 5, 6, 7, 0, 1, 2, 3);
  x += SHUFFLED(x, 2, 3, 0, 1, 6, 7, 4, 5);
  return x[0] + x[1];
}

template <class T>
T dot(const Vector<T>* a, const Vector<T>* b, int64_t vectors) {
  Vector<T> total = {};
  for (int64_t v = 0; v < vectors; ++v) total += a[v] * b[v];
  return sum(total);
}

// Zeros. Of no numbers there may be no address.
template <class T>
void clear(T* x, int64_t count) {
  if (count > 0) __builtin_memset(x, 0, count * sizeof(T));
}

// Rows of vectors, zeros at first. (std::vector is inline functions.)
template <class T>
class Rows {
 public:
  Rows(int64_t rows, int64_t vectors) : vectors_(vectors) {
    const int64_t size = rows * vectors * 64;
    data_ = static_cast<Vector<T>*>(aligned_alloc(64, size > 0 ? size : 64));
    if (data_ == nullptr) __builtin_trap();
    __builtin_memset(data_, 0, size);
  }
  ~Rows() { __builtin_free(data_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  Vector<T>* operator[](int64_t row) const { return data_ + row * vectors_; }
  T* numbers(int64_t row) const { return reinterpret_cast<T*>(data_ + row * vectors_); }
  void fill(int64_t row, const T* from, int64_t count) {
    __builtin_memcpy(numbers(row), from, count * sizeof(T));
    __builtin_memset(numbers(row) + count, 0, vectors_ * 64 - count * sizeof(T));
  }
  void give(int64_t row, T* to, int64_t count) const { __builtin_memcpy(to, numbers(row), count * sizeof(T)); }

 private:
  int64_t vectors_;
  Vector<T>* data_;
};

// What is of one type of numbers.
template <class T>
struct Of;
template <>
struct Of<float> {
  using Bits = uint32_t;
  // exp(x) is 0 below; log(2) in two parts, the first of few digits; how many terms of the series.
  static constexpr float lowest = -87.0f, high = 0.693145752f, low = 1.42860677e-06f;
  static constexpr int mantissa = 23, terms = 7, shift = 4, stirling = 5;
};
template <>
struct Of<double> {
  using Bits = uint64_t;
  static constexpr double lowest = -708.0, high = 0.69314718036912382, low = 1.9082149292705877e-10;
  static constexpr int mantissa = 52, terms = 13, shift = 8, stirling = 8;
};

// exp(x) = 2^n exp(r) for |r| <= log(2) / 2, by Taylor's series, to the last digits; for x below -lowest.
template <class T>
inline Vector<T> exponential(Vector<T> x) {
  using Bits = Vector<typename Of<T>::Bits>;
  static_assert(static_cast<typename Of<T>::Bits>(-1) > 0, "shifts of signed numbers below 0 are undefined");
  constexpr T rounder = 3 * (static_cast<T>(1ll << Of<T>::mantissa) / 2);
  const Vector<T> shifted = x * static_cast<T>(1.4426950408889634) + rounder, n = shifted - rounder;
  const Vector<T> r = (x - n * Of<T>::high) - n * Of<T>::low;
  Vector<T> value = r * (1 / static_cast<T>(Of<T>::terms)) + 1;
#pragma GCC unroll 16
  for (int i = Of<T>::terms - 1; i > 0; --i) value = 1 + value * r * (1 / static_cast<T>(i));
  // n is in the last bits of `shifted`, and goes to where a number has its exponent; what is above is lost, which of
  // unsigned numbers alone is defined.
  const Vector<T> scaled = (Vector<T>)((Bits)value + ((Bits)shifted << Of<T>::mantissa));
  return x < Of<T>::lowest ? Vector<T>{} : scaled;
}

}  // namespace
}  // namespace LEVEL
