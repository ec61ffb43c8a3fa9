// Gamma draws, as vijax/families/numeric/pathwise.py has them: element for element the same random words and the same order of
// rounds, so the numbers are XLA's up to rounding. Compiled once for each level of processors, as namespace LEVEL.
#include "kernels.h"
#include "numbers.h"
#include "threefry.h"

namespace LEVEL {
namespace {

constexpr float REJECTED = __builtin_inff();
constexpr int GROUP = 32, MAX_ROUNDS = 64;

// In (0, 1], of the upper 31 bits.
inline float uniform(uint32_t word) { return (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5f) * 0x1p-31f; }

// By the quantile function.
inline float normal(uint32_t word) {
  const float magnitude = quantile(uniform(word));
  return (word & 1) == 0 ? magnitude : -magnitude;
}

// Of a standard normal, and log u of a uniform; or REJECTED. Not a number where a is not positive and finite.
inline float propose(float n, float log_u, float a) {
  constexpr float series[] = {-1.0f / 4, 1.0f / 5, -1.0f / 6, 1.0f / 7, -1.0f / 8, 1.0f / 9};
  const float d = a + static_cast<float>(2.0 / 3), given = n / __builtin_sqrtf(9 * d);
  const bool inside = given > -1.0f + 1e-6f;
  const float t = inside ? given : 0;
  const float direct = logarithm(1 + t), three_terms = t * (1 + t * (-1.0f / 2 + t * (1.0f / 3)));
  const float tail = (t * t) * (t * t) * polynomial(series, t);
  const bool near = (t < 0 ? -t : t) < 0.1f;
  const float log1p_t = near ? three_terms + tail : direct, remainder = near ? tail : direct - three_terms;
  const float log_acceptance = 3 * d * remainder, excess = log_u - (log_acceptance < 0 ? log_acceptance : 0);
  const float accepted = 3 * log1p_t + (excess < 0 ? excess : 0) / a;
  const bool valid = a > 0 && a <= __FLT_MAX__;
  return !valid ? __builtin_nanf("") : inside && log_u < log_acceptance ? accepted : REJECTED;
}

// Random words of elements, then what is made of them: in loops of their own, short enough for a processor to be at
// several turns at once, over few enough elements that they stay in its first cache.
struct Variates {
  static constexpr int64_t MOST = 512;
  uint32_t first[MOST], second[MOST];
  float normals[MOST], log_uniforms[MOST];

  // Of elements index(0), index(1), ...
  template <class Index>
  void draw(const uint32_t* seed, uint32_t round, int64_t count, Index index) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const RandomWords words = threefry(seed, index(i), round);
      first[i] = words.first;
      second[i] = words.second;
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) normals[i] = normal(first[i]);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) log_uniforms[i] = logarithm(uniform(second[i]));
  }
};

// No more than GAMMA_PART elements, of which groups of 32 elements share a word of bits: which of them were rejected.
class Part {
 public:
  static constexpr int64_t MOST = GAMMA_PART;
  Part(const uint32_t* seed, const float* a, int64_t begin, int64_t end, float* out)
      : seed_(seed), a_(a + begin), begin_(static_cast<uint32_t>(begin)), count_(end - begin), out_(out + begin) {}

  void draw() {
    for (int64_t i = 0; i < count_; i += Variates::MOST) propose_all(i, min(i + Variates::MOST, count_));
    for (uint32_t round = 1; active_ > 0 && round < MAX_ROUNDS; ++round) {
      int64_t kept = 0;
      for (int64_t i = 0; i < active_; i += Variates::MOST) redraw(round, i, min(i + Variates::MOST, active_), &kept);
      active_ = kept;
    }
  }

 private:
  static int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }

  void propose_all(int64_t from, int64_t to) {
    const uint32_t first = begin_ + static_cast<uint32_t>(from);
    variates_.draw(seed_, 0, to - from, [=](int64_t i) { return first + static_cast<uint32_t>(i); });
    const float* a = a_ + from;
    float* out = out_ + from;
#pragma omp simd
    for (int64_t i = 0; i < to - from; ++i) out[i] = propose(variates_.normals[i], variates_.log_uniforms[i], a[i]);
    for (int64_t g = from / GROUP; g * GROUP < to; ++g) {
      uint32_t flags = 0;
      for (int64_t i = g * GROUP; i < min((g + 1) * GROUP, to); ++i)
        flags |= static_cast<uint32_t>(out_[i] == REJECTED) << (i - g * GROUP);
      flags_[g] = flags;
      groups_[active_] = static_cast<int32_t>(g);
      active_ += flags != 0;
    }
  }

  // A new candidate for the first element that each of these groups has left. Groups with more left are kept.
  void redraw(uint32_t round, int64_t from, int64_t to, int64_t* kept) {
    int32_t at[Variates::MOST];
    float candidates[Variates::MOST];
    const int64_t count = to - from;
    for (int64_t i = 0; i < count; ++i) at[i] = GROUP * groups_[from + i] + __builtin_ctz(flags_[groups_[from + i]]);
    variates_.draw(seed_, round, count, [&](int64_t i) { return begin_ + static_cast<uint32_t>(at[i]); });
#pragma omp simd
    for (int64_t i = 0; i < count; ++i)
      candidates[i] = propose(variates_.normals[i], variates_.log_uniforms[i], a_[at[i]]);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t group = groups_[from + i];
      out_[at[i]] = candidates[i];
      if (candidates[i] != REJECTED) flags_[group] &= flags_[group] - 1;
      groups_[*kept] = group;
      *kept += flags_[group] != 0;
    }
  }

  const uint32_t* seed_;
  const float* a_;
  uint32_t begin_;
  int64_t count_;
  float* out_;
  uint32_t flags_[MOST / GROUP];
  int32_t groups_[MOST / GROUP + 1];
  int64_t active_ = 0;
  Variates variates_;
};

void draw_offsets(const uint32_t* seed, const float* a, int64_t begin, int64_t end, float* out) {
  Part(seed, a, begin, end, out).draw();
}

}  // namespace

const GammaOffsets gamma_offsets = draw_offsets;

}  // namespace LEVEL
