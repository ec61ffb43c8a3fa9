// Threefry-2x32 with 20 rounds: see vijax/xla/threefry.py. Two random words of (index, stream).
#pragma once
#include <cstdint>

namespace LEVEL {
namespace {

struct RandomWords {
  uint32_t first, second;
};

inline uint32_t rotate(uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

inline RandomWords threefry(const uint32_t* key, uint32_t index, uint32_t stream) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDAu};
  uint32_t x0 = index + keys[0], x1 = stream + keys[1];
#pragma GCC unroll 5
  for (int block = 0; block < 5; ++block) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x0 += x1;
      x1 = rotate(x1, rotations[block % 2][i]) ^ x0;
    }
    x0 += keys[(block + 1) % 3];
    x1 += keys[(block + 2) % 3] + block + 1;
  }
  return {x0, x1};
}

}  // namespace
}  // namespace LEVEL
