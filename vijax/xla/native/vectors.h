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

}  // namespace
}  // namespace LEVEL
