// The E-steps. Compiled once for each level of processors, as namespace LEVEL.
#include "kernels.h"
#include "threefry.h"
#include "vectors.h"

namespace LEVEL {
namespace {

// The words of a document: rows of likelihoods, how many tokens each has, and its slot, or of a table its row. Slots
// without tokens are left out.
template <class T>
struct Words {
  Words(int64_t slots, int64_t vectors) : rows(slots, vectors), tokens(1, num_vectors<T>(slots)), slot(1, num_vectors<int64_t>(slots)) {}
  void read(Documents<T> in, int64_t d) {
    const int64_t slots = in.size.slots, topics = in.size.topics;
    count = 0;
    for (int64_t n = 0; n < slots; ++n) {
      const T given = in.counts[d * slots + n];
      if (given == 0) continue;
      const int64_t row = in.words == nullptr ? d * slots + n : in.words[d * slots + n];
      rows.fill(count, in.likelihood + row * topics, topics);
      tokens.numbers(0)[count] = given;
      slot.numbers(0)[count++] = in.words == nullptr ? n : row;
    }
  }
  Rows<T> rows, tokens;
  Rows<int64_t> slot;
  int64_t count = 0;
};

// Whether the mean change is at most tol; never where it is not a number. `before` becomes `now`.
template <class T>
bool settled(const Vector<T>* now, Vector<T>* before, int64_t vectors, int64_t topics, double tol) {
  Vector<T> change = {};
  for (int64_t v = 0; v < vectors; ++v) {
    Vector<T> moved = now[v] - before[v];
    change += moved < 0 ? -moved : moved;
    before[v] = now[v];
  }
  return sum(change) / topics <= tol;
}

inline float logarithm(float x) { return __builtin_logf(x); }
inline double logarithm(double x) { return __builtin_log(x); }

// --- CVB0 ----------------------------------------------------------------------------------------------------------

// gamma_nk of word n ∝ max(alpha_k + N_k - gamma_nk, alpha_k) p_nk, which replaces it; and adds it to `counts`.
template <class T>
void weigh(const Vector<T>* p, const Vector<T>* alpha, const Vector<T>* level, T tokens, int64_t vectors,
           Vector<T>* own, Vector<T>* counts) {
  Vector<T> total = {};
  for (int64_t v = 0; v < vectors; ++v) {
    Vector<T> others = level[v] - own[v];
    own[v] = (others < alpha[v] ? alpha[v] : others) * p[v];
    total += own[v];
  }
  const T scale = 1 / sum(total);
  for (int64_t v = 0; v < vectors; ++v) {
    own[v] *= scale;
    counts[v] += tokens * own[v];
  }
}

// Climbs from the topic counts given, and leaves the responsibilities of each word in `own`.
template <class T>
class CVB0 {
 public:
  CVB0(Sizes size, const T* given_alpha, Settings settings)
      : own(size.slots, num_vectors<T>(size.topics)),
        settings_(settings),
        topics_(size.topics),
        vectors_(num_vectors<T>(size.topics)),
        scratch_(4, vectors_) {
    scratch_.fill(0, given_alpha, topics_);
  }
  // `gamma` becomes what is found.
  void operator()(const Words<T>& words, T* gamma) {
    Vector<T> *alpha = scratch_[0], *counts = scratch_[1], *level = scratch_[2], *now = scratch_[3];
    scratch_.fill(1, words.count > 0 ? gamma : scratch_.numbers(0), topics_);
    for (int64_t v = 0; v < vectors_; ++v) counts[v] -= alpha[v];
    __builtin_memset(own[0], 0, words.count * vectors_ * 64);
    // The first round, from the start, is no iteration yet.
    for (int64_t i = 0; words.count > 0 && i <= settings_.max_iters; ++i) {
      for (int64_t v = 0; v < vectors_; ++v) {
        level[v] = alpha[v] + counts[v];
        now[v] = Vector<T>{};
      }
      for (int64_t n = 0; n < words.count; ++n)
        weigh<T>(words.rows[n], alpha, level, words.tokens.numbers(0)[n], vectors_, own[n], now);
      if (settled<T>(now, counts, vectors_, topics_, settings_.tol) && i > 0) break;
    }
    for (int64_t v = 0; v < vectors_; ++v) counts[v] += alpha[v];
    scratch_.give(1, gamma, topics_);
  }
  const Rows<T>* responsibilities() const { return &own; }
  Rows<T> own;

 private:
  Settings settings_;
  int64_t topics_, vectors_;
  Rows<T> scratch_;
};

template <class T>
void cvb0(Documents<T> in, const T* start, Settings settings, T* gamma, T* token_topics) {
  const int64_t topics = in.size.topics, slots = in.size.slots, vectors = num_vectors<T>(topics);
  Words<T> words(slots, vectors);
  CVB0<T> climb(in.size, in.alpha, settings);
  clear(token_topics, in.size.docs * slots * topics);
  for (int64_t d = 0; d < in.size.docs; ++d) {
    words.read(in, d);
    __builtin_memcpy(gamma + d * topics, start + d * topics, topics * sizeof(T));
    climb(words, gamma + d * topics);
    for (int64_t n = 0; n < words.count; ++n) {
      for (int64_t v = 0; v < vectors; ++v) climb.own[n][v] *= words.tokens.numbers(0)[n];
      climb.own.give(n, token_topics + (d * slots + words.slot.numbers(0)[n]) * topics, topics);
    }
  }
}

// --- mean field ----------------------------------------------------------------------------------------------------

// psi(x) = log(z) + what is returned, for x > 0: psi(x) = psi(x + s) - sum_{i < s} 1 / (x + i) where x is small, and
// Stirling's series.
template <class T>
inline Vector<T> digamma_less_log(Vector<T> x, Vector<T>* z) {
  constexpr int shift = Of<T>::shift;
  Vector<T> top = {}, bottom = Vector<T>{} + 1;
#pragma GCC unroll 8
  for (int i = 0; i < shift; ++i) {
    top = top * (x + static_cast<T>(i)) + bottom;
    bottom *= x + static_cast<T>(i);
  }
  *z = x < shift ? x + static_cast<T>(shift) : x;
  const Vector<T> inverse = 1 / *z, square = inverse * inverse;
  constexpr double series[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12,  -3617.0 / 8160};
  Vector<T> tail = {};
#pragma GCC unroll 8
  for (int i = Of<T>::stirling - 1; i >= 0; --i) tail = (tail + static_cast<T>(series[i])) * square;
  return (x < shift ? -top / bottom : Vector<T>{}) - static_cast<T>(0.5) * inverse - tail;
}

// exp E[log theta], the largest being 1.
template <class T>
void topic_weights(const Vector<T>* gamma, int64_t vectors, Vector<T>* z, Vector<T>* weights) {
  Vector<T> largest = gamma[0];
  for (int64_t v = 1; v < vectors; ++v) largest = gamma[v] > largest ? gamma[v] : largest;
  T most = largest[0];
  for (int64_t i = 1; i < WIDTH<T>; ++i) most = largest[i] > most ? largest[i] : most;
  Vector<T> top_z, top = digamma_less_log<T>(Vector<T>{} + most, &top_z);
  const Vector<T> scale = 1 / top_z;
  for (int64_t v = 0; v < vectors; ++v) {
    const Vector<T> rest = digamma_less_log<T>(gamma[v], z + v) - top;
    weights[v] = z[v] * scale * exponential<T>(rest);
  }
}

template <class T>
class MeanField {
 public:
  MeanField(Sizes size, const T* given_alpha, Settings settings)
      : settings_(settings), topics_(size.topics), vectors_(num_vectors<T>(size.topics)), scratch_(5, vectors_) {
    scratch_.fill(0, given_alpha, topics_);
  }
  // `gamma` becomes what is found.
  void operator()(const Words<T>& words, T* gamma) {
    Vector<T> *alpha = scratch_[0], *found = scratch_[1], *weights = scratch_[2], *now = scratch_[3], *z = scratch_[4];
    scratch_.fill(1, gamma, topics_);
    for (int64_t i = 0; words.count > 0 && i < settings_.max_iters; ++i) {
      topic_weights<T>(found, vectors_, z, weights);
      for (int64_t v = 0; v < vectors_; ++v) now[v] = Vector<T>{};
      for (int64_t n = 0; n < words.count; ++n) {
        const Vector<T>* p = words.rows[n];
        const T share = words.tokens.numbers(0)[n] / dot<T>(p, weights, vectors_);
        for (int64_t v = 0; v < vectors_; ++v) now[v] += share * p[v];
      }
      for (int64_t v = 0; v < vectors_; ++v) now[v] = alpha[v] + weights[v] * now[v];
      if (settled<T>(now, found, vectors_, topics_, settings_.tol)) break;
    }
    scratch_.give(1, gamma, topics_);
  }
  // The optimal ones, which are never formed.
  const Rows<T>* responsibilities() const { return nullptr; }

 private:
  Settings settings_;
  int64_t topics_, vectors_;
  Rows<T> scratch_;
};

template <class T>
void mean_field(Documents<T> in, const T* start, Settings settings, T* gamma) {
  const int64_t topics = in.size.topics;
  Words<T> words(in.size.slots, num_vectors<T>(topics));
  MeanField<T> climb(in.size, in.alpha, settings);
  for (int64_t d = 0; d < in.size.docs; ++d) {
    words.read(in, d);
    __builtin_memcpy(gamma + d * topics, start + d * topics, topics * sizeof(T));
    climb(words, gamma + d * topics);
  }
}

// --- a whole step: of rows of a table, with the bound and its gradient ---------------------------------------------

// sum_n c_n log sum_k exp(E log theta_k) p_nk of one document, and its gradient in p, which is added to rows of a table.
template <class T>
class Bound {
 public:
  explicit Bound(int64_t topics) : topics_(topics), vectors_(num_vectors<T>(topics)), scratch_(4, vectors_) {}

  // `own` are the responsibilities whose gradient is meant, or none: the optimal ones.
  T operator()(const Words<T>& words, const T* gamma, T weight, const Rows<T>* own, T* gradient) {
    Vector<T> *found = scratch_[0], *weights = scratch_[1], *z = scratch_[2], *add = scratch_[3];
    if (words.count == 0) return 0;
    scratch_.fill(0, gamma, topics_);
    topic_weights<T>(found, vectors_, z, weights);
    const T largest = log_largest(gamma);
    T value = 0;
    for (int64_t n = 0; n < words.count; ++n) {
      const Vector<T>* p = words.rows[n];
      const T tokens = words.tokens.numbers(0)[n], mixed = dot<T>(p, weights, vectors_);
      value += tokens * (logarithm(mixed) + largest);
      for (int64_t v = 0; v < vectors_; ++v)
        add[v] = own == nullptr ? weight * tokens / mixed * weights[v] : weight * tokens * (*own)[n][v] / p[v];
      T* to = gradient + words.slot.numbers(0)[n] * topics_;
      for (int64_t k = 0; k < topics_; ++k) to[k] += scratch_.numbers(3)[k];
    }
    return value;
  }

 private:
  // E log theta of the topic that has most.
  T log_largest(const T* gamma) const {
    T most = gamma[0], total = 0;
    for (int64_t k = 0; k < topics_; ++k) {
      most = gamma[k] > most ? gamma[k] : most;
      total += gamma[k];
    }
    Vector<T> both = Vector<T>{} + 1, z;
    both[0] = most;
    both[1] = total;
    const Vector<T> less = digamma_less_log<T>(both, &z);
    return less[0] - less[1] + logarithm(z[0] / z[1]);
  }
  int64_t topics_, vectors_;
  Rows<T> scratch_;
};

template <class T, class Climb>
void step(Documents<T> in, const T* weights, const T* start, Settings settings, T* gamma, T* bound, T* gradient) {
  const int64_t topics = in.size.topics;
  Words<T> words(in.size.slots, num_vectors<T>(topics));
  Climb climb(in.size, in.alpha, settings);
  Bound<T> bounded(topics);
  for (int64_t d = 0; d < in.size.docs; ++d) {
    T* own = gamma + d * topics;
    words.read(in, d);
    __builtin_memcpy(own, start + d * topics, topics * sizeof(T));
    climb(words, own);
    bound[d] = bounded(words, own, weights[d], climb.responsibilities(), gradient);
  }
}

// --- Gibbs ---------------------------------------------------------------------------------------------------------

inline float uniform(uint32_t bits, float) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
inline double uniform(uint32_t bits, double) { return static_cast<double>(bits) * 0x1p-32; }

// Topics in `inner` rows of `blocks`: topic i * blocks + j is place i of block j. A row fills whole vectors.
struct Table {
  explicit Table(int64_t topics) {
    while ((inner + 1) * (inner + 1) <= topics) ++inner;
    blocks = (topics + inner - 1) / inner;
  }
  int64_t inner = 1, blocks;
};

template <class T>
void lay_out(Table table, const T* from, int64_t topics, T* to) {
  const int64_t stride = num_vectors<T>(table.blocks) * WIDTH<T>;
  for (int64_t i = 0, k = 0; i < table.inner; ++i)
    for (int64_t j = 0; j < table.blocks && k < topics; ++j) to[i * stride + j] = from[k++];
}

// Every number becomes the sum of those up to it; the last.
template <class T>
inline T accumulate(T* x, int64_t count, int64_t stride) {
  T total = 0;
  for (int64_t i = 0; i < count; ++i) {
    total += x[i * stride];
    x[i * stride] = total;
  }
  return total;
}

// A place of the table in proportion to level * p: first its block, then the row.
struct Drawn {
  int64_t row, block;
};
template <class T>
Drawn draw(Table table, int64_t vectors, const Vector<T>* level, const Vector<T>* p, uint32_t bits,
              Vector<T>* weights, Vector<T>* by_block) {
  for (int64_t v = 0; v < vectors; ++v) {
    Vector<T> total = {};
    for (int64_t i = 0; i < table.inner; ++i) {
      weights[i * vectors + v] = level[i * vectors + v] * p[i * vectors + v];
      total += weights[i * vectors + v];
    }
    by_block[v] = total;
  }
  T* sums = reinterpret_cast<T*>(by_block);
  const T target = uniform(bits, T()) * accumulate(sums, table.blocks, 1);
  int64_t block = 0;
  for (int64_t j = 0; j + 1 < table.blocks; ++j) block += sums[j] <= target;
  const T before = block > 0 ? sums[block - 1] : 0;
  T* column = reinterpret_cast<T*>(weights) + block;
  const int64_t stride = vectors * WIDTH<T>;
  const T total = accumulate(column, table.inner, stride);
  // Rounding may leave the rest at the end of the block, or beyond; the last topic of it that has weight is meant.
  constexpr T below = 1 - (sizeof(T) == 4 ? static_cast<T>(0x1p-23) : static_cast<T>(0x1p-52));
  const T rest = target - before < total * below ? target - before : total * below;
  int64_t row = 0;
  for (int64_t i = 0; i + 1 < table.inner; ++i) row += column[i * stride] <= rest;
  return {row, block};
}

// The tokens of one document, and how many are in each place of the table.
template <class T>
struct Chain {
  Chain(Documents<T> in, Table table, int64_t max_tokens)
      : table(table),
        vectors(num_vectors<T>(table.blocks)),
        rows(in.size.slots, table.inner * vectors),
        level(1, table.inner * vectors),
        weights(1, table.inner * vectors),
        by_block(1, vectors),
        places(2, num_vectors<int64_t>(max_tokens)),
        words(1, num_vectors<uint32_t>(max_tokens)) {}

  void read(Documents<T> in, int64_t document, int64_t max_tokens) {
    d = document;
    tokens = 0;
    T end = 0;
    for (int64_t n = 0; n < in.size.slots; ++n) {
      end += in.counts[d * in.size.slots + n];
      lay_out(table, in.likelihood + (d * in.size.slots + n) * in.size.topics, in.size.topics, rows.numbers(n));
      // None where `end` is not a number.
      while (tokens < max_tokens && static_cast<double>(tokens + 1) <= end) places.numbers(0)[tokens++] = n;
    }
    lay_out(table, in.alpha, in.size.topics, level.numbers(0));
    for (int64_t m = 0; m < tokens; ++m) places.numbers(1)[m] = -1;
  }

  void shuffle(const uint32_t* seed, int64_t docs, int64_t sweep) {
    uint32_t* bits = words.numbers(0);
#pragma omp simd
    for (int64_t m = 0; m < tokens; ++m)
      bits[m] = threefry(seed, static_cast<uint32_t>(m * docs + d), static_cast<uint32_t>(sweep)).first;
  }

  // A new topic of token m, given those of all others.
  inline int64_t move(int64_t m) {
    int64_t& place = places.numbers(1)[m];
    // None at first: the first sweep has nothing to take out.
    if (place >= 0) level.numbers(0)[place] -= 1;
    const auto [row, block] =
        draw<T>(table, vectors, level[0], rows[slot(m)], words.numbers(0)[m], weights[0], by_block[0]);
    place = row * vectors * WIDTH<T> + block;
    level.numbers(0)[place] += 1;
    return row * table.blocks + block;
  }

  int64_t slot(int64_t m) const { return places.numbers(0)[m]; }

  Table table;
  int64_t vectors, d = 0, tokens = 0;
  Rows<T> rows, level, weights, by_block;
  Rows<int64_t> places;
  Rows<uint32_t> words;
};

template <class T>
void gibbs(Documents<T> in, const uint32_t* seed, int64_t max_tokens, int64_t burn_in, int64_t num_sweeps, T* gamma,
           T* token_topics) {
  const int64_t topics = in.size.topics, slots = in.size.slots, docs = in.size.docs;
  Chain<T> chain(in, Table(topics), max_tokens);
  clear(token_topics, docs * slots * topics);
  for (int64_t d = 0; d < docs; ++d) {
    T *kept = token_topics + d * slots * topics, *out = gamma + d * topics;
    chain.read(in, d, max_tokens);
    for (int64_t s = 0; s < burn_in + num_sweeps; ++s) {
      chain.shuffle(seed, docs, s);
      for (int64_t m = 0; m < chain.tokens; ++m) {
        const int64_t topic = chain.move(m);
        if (s >= burn_in && topic < topics) kept[chain.slot(m) * topics + topic] += 1;
      }
    }
    for (int64_t k = 0; k < topics; ++k) out[k] = in.alpha[k];
    for (int64_t n = 0; n < slots; ++n)
      for (int64_t k = 0; k < topics; ++k) {
        kept[n * topics + k] /= num_sweeps;
        out[k] += kept[n * topics + k];
      }
  }
}

}  // namespace

template <class T>
constexpr Kernels<T> all() {
  return {cvb0<T>, mean_field<T>, gibbs<T>, step<T, CVB0<T>>, step<T, MeanField<T>>};
}
const Kernels<float> floats = all<float>();
const Kernels<double> doubles = all<double>();

}  // namespace LEVEL
