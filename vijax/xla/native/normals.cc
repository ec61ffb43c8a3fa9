// E-steps of documents with logistic-normal topics, as vijax/inference/estep/logistic_normal.py has them, and the bound
// of `vijax.models.ctm`. Draws are those of `jax.random`, the same for every level of processors up to rounding. Compiled
// once for each level of processors, as namespace LEVEL.
#include "kernels.h"
#include "numbers.h"
#include "threefry.h"
#include "vectors.h"

namespace LEVEL {
namespace {

// So many vectors of draws, and sums over words, are kept in registers at once.
#if defined(__AVX512F__)
constexpr int SIDE = 4, SUMS = 4;
#else
constexpr int SIDE = 2, SUMS = 2;
#endif

inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }
inline double logarithm(double x) { return __builtin_log(x); }
template <class T>
T smaller(T a, T b) {
  return a < b ? a : b;
}

// --- matrices, in rows of vectors ----------------------------------------------------------------------------------

// U of U'U = a, in the place of its upper triangle; the rest of it is of no meaning then. Whether there is one.
template <class T>
bool factorise(const Rows<T>& a, int64_t size, int64_t vectors) {
  bool positive = true;
  for (int64_t j = 0; j < size; ++j) {
    positive &= a.numbers(j)[j] > 0;
    const T pivot = root(a.numbers(j)[j]);
    for (int64_t v = j / WIDTH<T>; v < vectors; ++v) a[j][v] /= pivot;
    for (int64_t i = j + 1; i < size; ++i) {
      const T c = a.numbers(j)[i];
      for (int64_t v = i / WIDTH<T>; v < vectors; ++v) a[i][v] -= c * a[j][v];
    }
  }
  return positive;
}

// (U'U)^-1 = R'R for R = U'^-1, which is triangular too.
template <class T>
void invert(const Rows<T>& u, int64_t size, int64_t vectors, const Rows<T>& r, const Rows<T>& out) {
  clear(out.numbers(0), size * vectors * WIDTH<T>);
  clear(r.numbers(0), size * vectors * WIDTH<T>);
  for (int64_t k = 0; k < size; ++k) {
    const int64_t used = k / WIDTH<T> + 1;
    r.numbers(k)[k] = 1;
    for (int64_t j = 0; j < k; ++j) {
      const T c = u.numbers(j)[k];
      for (int64_t v = 0; v < used; ++v) r[k][v] -= c * r[j][v];
    }
    const T pivot = u.numbers(k)[k];
    for (int64_t v = 0; v < used; ++v) r[k][v] /= pivot;
    for (int64_t i = 0; i <= k; ++i) {
      const T c = r.numbers(k)[i];
      for (int64_t v = 0; v < used; ++v) out[i][v] += c * r[k][v];
    }
  }
}

// (U'U)^-1 x in the place of x.
template <class T>
void solve(const Rows<T>& u, int64_t size, T* x) {
  for (int64_t j = 0; j < size; ++j) {
    x[j] /= u.numbers(j)[j];
    for (int64_t i = j + 1; i < size; ++i) x[i] -= u.numbers(j)[i] * x[j];
  }
  for (int64_t j = size - 1; j >= 0; --j) {
    for (int64_t i = j + 1; i < size; ++i) x[j] -= u.numbers(j)[i] * x[i];
    x[j] /= u.numbers(j)[j];
  }
}

template <class T>
void multiply(const Rows<T>& a, const Rows<T>& b, int64_t size, int64_t vectors, const Rows<T>& out) {
  clear(out.numbers(0), size * vectors * WIDTH<T>);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) {
      const T c = a.numbers(i)[j];
      for (int64_t v = 0; v < vectors; ++v) out[i][v] += c * b[j][v];
    }
}

// The columns of a, which are its rows here, made orthonormal by Householder's reflections: Q of LAPACK, whose signs it
// has. No more columns than numbers in each.
template <class T>
void orthonormal(const Rows<T>& a, int64_t length, int64_t columns, T* weight) {
  const auto reflect = [=](const T* x, T by, T* y, int64_t from) {
    T along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t i = from; i < length; ++i) along += x[i] * y[i];
    along *= by;
    for (int64_t i = from; i < length; ++i) y[i] -= along * x[i];
  };
  for (int64_t j = 0; j < columns; ++j) {
    T *x = a.numbers(j), rest = 0;
#pragma omp simd reduction(+ : rest)
    for (int64_t i = j + 1; i < length; ++i) rest += x[i] * x[i];
    const T first = x[j], norm = root(first * first + rest), beta = first < 0 ? norm : -norm;
    weight[j] = rest == 0 ? 0 : (beta - first) / beta;
    for (int64_t i = j + 1; i < length && rest != 0; ++i) x[i] /= first - beta;
    x[j] = 1;
    for (int64_t l = j + 1; l < columns; ++l) reflect(x, weight[j], a.numbers(l), j);
  }
  for (int64_t j = columns - 1; j >= 0; --j) {
    T* x = a.numbers(j);
    for (int64_t l = j + 1; l < columns; ++l) reflect(x, weight[j], a.numbers(l), j);
    for (int64_t i = 0; i < length; ++i) x[i] = i < j ? 0 : i == j ? 1 - weight[j] : -weight[j] * x[i];
  }
}

// Shares are kept above this, so that no 1 / p^2 overflows: the smallest normal number to the power of 2/5.
template <class T>
struct Least;
template <>
struct Least<float> {
  static constexpr float share = 0x1.8406p-51f;
};
template <>
struct Least<double> {
  static constexpr double share = 0x1.26111fa2p-409;
};

// --- draws -----------------------------------------------------------------------------------------------------------

// A uniform of (-1, 1) as `jax.random.uniform` makes it of the words of a counter.
inline float uniform(RandomWords words, float) {
  const uint32_t bits = (words.first ^ words.second) >> 9 | 0x3f800000u;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  const float found = (x - 1) * 2 - 0x1.fffffep-1f;
  return found > -0x1.fffffep-1f ? found : -0x1.fffffep-1f;
}
inline double uniform(RandomWords words, double) {
  const uint64_t both = static_cast<uint64_t>(words.first) << 32 | words.second, bits = both >> 12 | 0x3ffull << 52;
  double x;
  __builtin_memcpy(&x, &bits, 8);
  const double found = (x - 1) * 2 - 0x1.fffffffffffffp-1;
  return found > -0x1.fffffffffffffp-1 ? found : -0x1.fffffffffffffp-1;
}

// A key of two words; `jax.random.split` and `fold_in` make others of it.
struct Key {
  uint32_t words[2];
  Key split(int64_t i) const {
    const RandomWords found = threefry(words, 0, static_cast<uint32_t>(i));
    return {{found.first, found.second}};
  }
};

// Normals number `first` and following of a key, as `jax.random.normal` draws them.
template <class T>
void normals(Key key, uint32_t first, int64_t count, T* out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = uniform(threefry(key.words, 0, first + static_cast<uint32_t>(i)), T());
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const T size = quantile(1 - (out[i] < 0 ? -out[i] : out[i]));
    out[i] = out[i] < 0 ? -size : size;
  }
}

// Noise of draws, a row of draws for each topic, filled up with zeros that weigh nothing in an average.
template <class T>
class Noise {
 public:
  Noise(Drawing how, int64_t topics)
      : draws(draws_of(how, topics)),
        vectors(num_vectors<T>(draws)),
        of_topic(topics, vectors),
        weight(1, vectors),
        how_(how),
        topics_(topics),
        count_(how.antithetic ? draws / 2 : draws),
        raw_(1, num_vectors<T>(count_ * topics)),
        columns_(smaller(count_, topics), num_vectors<T>(count_ > topics ? count_ : topics)),
        scratch_(1, num_vectors<T>(topics)) {
    for (int64_t s = 0; s < draws; ++s) weight.numbers(0)[s] = 1 / static_cast<T>(draws);
  }

  // Of a document that is number `place` of those that share a key.
  void draw(Key key, int64_t place) {
    T* raw = raw_.numbers(0);
    normals(key, static_cast<uint32_t>(place * count_ * topics_), count_ * topics_, raw);
    if (how_.matched) match(raw);
    for (int64_t k = 0; k < topics_; ++k)
      for (int64_t s = 0; s < count_; ++s) {
        of_topic.numbers(k)[s] = raw[s * topics_ + k];
        if (how_.antithetic) of_topic.numbers(k)[count_ + s] = -raw[s * topics_ + k];
      }
  }

  int64_t draws, vectors;
  Rows<T> of_topic, weight;

 private:
  // Of the curvature by slopes a pair for each topic, or more.
  static int64_t draws_of(Drawing how, int64_t topics) {
    return how.by_slopes && how.draws < 2 * topics ? 2 * topics : how.draws;
  }
  // The average of e e' becomes the identity; with fewer draws than topics, these become orthogonal.
  void match(T* raw) {
    const bool few = count_ < topics_;
    const int64_t length = few ? topics_ : count_, columns = few ? count_ : topics_;
    const auto at = [=](int64_t j, int64_t i) { return few ? j * topics_ + i : i * topics_ + j; };
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < length; ++i) columns_.numbers(j)[i] = raw[at(j, i)];
    orthonormal(columns_, length, columns, scratch_.numbers(0));
    const T scale = root(static_cast<T>(length));
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < length; ++i) raw[at(j, i)] = scale * columns_.numbers(j)[i];
  }
  Drawing how_;
  int64_t topics_, count_;
  Rows<T> raw_, columns_, scratch_;
};

// softmax(m + U' noise) of each draw, no less than `least`; U is the factor of a covariance.
template <class T>
void draw_shares(const T* mean, const Rows<T>& u, const Noise<T>& noise, int64_t topics, T least, const Rows<T>& out) {
  for (int64_t v = 0; v < noise.vectors; ++v) {
    Vector<T> most = {}, total = {};
    for (int64_t k = 0; k < topics; ++k) {
      Vector<T> z = Vector<T>{} + mean[k];
      for (int64_t j = 0; j <= k; ++j) z += u.numbers(j)[k] * noise.of_topic[j][v];
      most = k == 0 || z > most ? z : most;
      out[k][v] = z;
    }
    for (int64_t k = 0; k < topics; ++k) {
      out[k][v] = exponential<T>(out[k][v] - most);
      total += out[k][v];
    }
    for (int64_t k = 0; k < topics; ++k) {
      const Vector<T> share = out[k][v] / total;
      out[k][v] = share < least ? Vector<T>{} + least : share;
    }
  }
}

// --- words -----------------------------------------------------------------------------------------------------------

// The words of a document: a row for each topic, and for each word its number of tokens, its scale, so that its largest
// likelihood is one, and its slot, or of a table its row. Slots without tokens are left out.
template <class T>
struct Words {
  Words(int64_t slots, int64_t topics)
      : stride(num_vectors<T>(slots) * WIDTH<T>),
        of_topic(topics, num_vectors<T>(slots)),
        tokens(1, num_vectors<T>(slots)),
        scale(1, num_vectors<T>(slots)),
        slot(1, num_vectors<int64_t>(slots)) {}
  void read(Documents<T> in, int64_t d) {
    const int64_t slots = in.size.slots, topics = in.size.topics;
    count = 0;
    total = 0;
    for (int64_t n = 0; n < slots; ++n) {
      const T given = in.counts[d * slots + n];
      total += given;
      if (!(given > 0)) continue;
      const int64_t row = in.words == nullptr ? d * slots + n : in.words[d * slots + n];
      const T* likelihood = in.likelihood + row * topics;
      T most = likelihood[0];
      for (int64_t k = 1; k < topics; ++k) most = likelihood[k] > most ? likelihood[k] : most;
      for (int64_t k = 0; k < topics; ++k) of_topic.numbers(k)[count] = likelihood[k] / most;
      tokens.numbers(0)[count] = given;
      scale.numbers(0)[count] = most;
      slot.numbers(0)[count++] = row;
    }
  }
  int64_t stride;  // numbers from a topic to the next
  Rows<T> of_topic, tokens, scale;
  Rows<int64_t> slot;
  int64_t count = 0;
  T total = 0;
};

// sum_n c_pn w_n for SUMS lists c_p, of which every step-th number counts, and V vectors w_n of each word.
template <class T, int V>
inline void add_up(const T* const* c, int64_t step, const Rows<T>& w, int64_t count, int64_t at, int64_t stride, Vector<T>* out) {
  Vector<T> total[SUMS][V] = {};
  for (int64_t n = 0; n < count; ++n) {
    const Vector<T>* own = w[n] + at;
#pragma GCC unroll 4
    for (int p = 0; p < SUMS; ++p)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) total[p][v] += c[p][n * step] * own[v];
  }
  for (int p = 0; p < SUMS; ++p)
    for (int v = 0; v < V; ++v) out[p * stride + at + v] = total[p][v];
}
template <class T>
inline void add_up(const T* const* c, int64_t step, const Rows<T>& w, int64_t count, int64_t vectors, Vector<T>* out) {
  int64_t at = 0;
  for (; at + SIDE <= vectors; at += SIDE) add_up<T, SIDE>(c, step, w, count, at, vectors, out);
  for (; at < vectors; ++at) add_up<T, 1>(c, step, w, count, at, vectors, out);
}

// p_n = sum_k share_k l_nk of each word and draw, SUMS words at once, the last ones of which may be of no meaning.
template <class T>
void mix(const Words<T>& words, const Rows<T>& share, int64_t topics, int64_t vectors, const Rows<T>& out) {
  for (int64_t n = 0; n < words.count; n += SUMS) {
    const T* lists[SUMS];
    for (int p = 0; p < SUMS; ++p) lists[p] = words.of_topic.numbers(0) + n + p;
    add_up<T>(lists, words.stride, share, topics, vectors, out[n]);
  }
}

// --- the E-step ------------------------------------------------------------------------------------------------------

// What is of one document: q(z) = N(mean, precision^-1).
template <class T>
class Ascent {
 public:
  Ascent(Gaussians<T> in, Climbing settings)
      : mean(1, num_vectors<T>(in.docs.size.topics)),
        precision(in.docs.size.topics, vectors_of(in)),
        in_(in),
        settings_(settings),
        topics_(in.docs.size.topics),
        vectors_(vectors_of(in)),
        noise_(settings.drawing, topics_),
        prior_(topics_, vectors_),
        prior_factor_(topics_, vectors_),
        factor_(topics_, vectors_),
        inverse_(topics_, vectors_),
        cov_(topics_, vectors_),
        cov_factor_(topics_, vectors_),
        move_(topics_, vectors_),
        last_(topics_, vectors_),
        moved_(topics_, vectors_),
        moved_last_(topics_, vectors_),
        small_(4, vectors_),
        share_(topics_, noise_.vectors),
        once_(in.docs.size.slots + SUMS, noise_.vectors),
        twice_(in.docs.size.slots, noise_.vectors),
        slope_(topics_, noise_.vectors),
        sums_(SUMS, noise_.vectors),
        products_(SUMS, num_vectors<T>(in.docs.size.slots)) {
    for (int64_t k = 0; k < topics_; ++k) prior_.fill(k, in.precision + k * topics_, topics_);
    copy(prior_, prior_factor_);
    factorise(prior_factor_, topics_, vectors_);
  }

  // Of document d, whose words these are, number `place` of those that share a key; how often a step was halved.
  int32_t operator()(const Words<T>& words, int64_t d, Key key, int64_t place) {
    halvings_ = 0;
    begin(words, d);
    if (words.total > 0 && settings_.max_iters > 0) noise_.draw(key, place);
    for (int64_t i = 0; words.total > 0 && i < settings_.max_iters; ++i) {
      ascend(words, d);
      const bool turned = fisher(last(), moved_last_) < 0;
      const T gain = fisher(gradient(), moved_) / 2, grown = static_cast<T>(1.5) * rho_, most = settings_.step_size;
      step(turned ? rho_ / 2 : smaller(grown, most), &rho_);
      if (gain <= settings_.tol) break;
    }
    for (int64_t i = 0; i < settings_.refine; ++i) {
      noise_.draw(key.split(i), place);
      ascend(words, d);
      T used;
      step(rho_, &used);
      rho_ /= 1 + rho_;
    }
    return halvings_;
  }
  // What is found: the mean, and how much the precision exceeds the prior's.
  void give(T* to, T* site) const {
    for (int64_t i = 0; i < topics_; ++i) {
      to[i] = mean.numbers(0)[i];
      for (int64_t j = 0; j < topics_; ++j) site[i * topics_ + j] = precision.numbers(i)[j] - prior_.numbers(i)[j];
    }
  }
  const Rows<T>& prior() const { return prior_; }

  Rows<T> mean, precision;

 private:
  static int64_t vectors_of(Gaussians<T> in) { return num_vectors<T>(in.docs.size.topics); }
  T* gradient() const { return small_.numbers(0); }
  T* last() const { return small_.numbers(1); }
  void copy(const Rows<T>& from, const Rows<T>& to) const {
    __builtin_memcpy(to.numbers(0), from.numbers(0), topics_ * vectors_ * 64);
  }
  bool kept(int64_t i, int64_t j) const { return !settings_.diagonal || i == j; }

  void begin(const Words<T>& words, int64_t d) {
    const T *given = in_.mean + d * topics_, *site = in_.site + d * topics_ * topics_;
    bool fresh = true;
    for (int64_t k = 0; k < topics_; ++k) fresh &= given[k] == 0;
    for (int64_t i = 0; i < topics_ * topics_; ++i) fresh &= site[i] == 0;
    mean.fill(0, given, topics_);
    add_to_prior([=](int64_t i, int64_t j) { return site[i * topics_ + j]; });
    copy(precision, factor_);
    if (!factorise(factor_, topics_, vectors_) || !(words.total > 0) || fresh) {
      const T tight = static_cast<T>(TIGHT) * words.total;
      add_to_prior([=](int64_t i, int64_t j) { return i == j ? tight : 0; });
      copy(precision, factor_);
      factorise(factor_, topics_, vectors_);
      mean.fill(0, in_.linear + d * topics_, topics_);
      solve(prior_factor_, topics_, mean.numbers(0));
    }
    rho_ = settings_.step_size;
    clear(last(), topics_);
    clear(last_.numbers(0), topics_ * vectors_ * WIDTH<T>);
  }
  template <class Site>
  void add_to_prior(Site site) {
    for (int64_t i = 0; i < topics_; ++i)
      for (int64_t j = 0; j < topics_; ++j)
        precision.numbers(i)[j] = kept(i, j) ? prior_.numbers(i)[j] + site(i, j) : 0;
  }

  // The gradient of the bound in the mean, and -2 times that in the covariance; and the covariance.
  void ascend(const Words<T>& words, int64_t d) {
    invert(factor_, topics_, vectors_, inverse_, cov_);
    copy(cov_, cov_factor_);
    factorise(cov_factor_, topics_, vectors_);
    draw_shares(mean.numbers(0), cov_factor_, noise_, topics_, Least<T>::share, share_);
    mix(words, share_, topics_, noise_.vectors, once_);
    for (int64_t n = 0; n < words.count; ++n)
      for (int64_t v = 0; v < noise_.vectors; ++v) {
        const Vector<T> inverse = 1 / once_[n][v];
        once_[n][v] = words.tokens.numbers(0)[n] * noise_.weight[0][v] * inverse;
        twice_[n][v] = once_[n][v] * inverse;
      }
    slopes(words, d);
    settings_.drawing.by_slopes ? curvature_of_slopes() : curvatures(words);
    multiply(cov_, move_, topics_, vectors_, moved_);
    multiply(cov_, last_, topics_, vectors_, moved_last_);
  }

  void slopes(const Words<T>& words, int64_t d) {
    T* of_words = small_.numbers(2);
    for (int64_t k = 0; k < topics_; k += SUMS) {
      const T* lists[SUMS];
      for (int64_t p = 0; p < SUMS; ++p) lists[p] = words.of_topic.numbers(smaller(k + p, topics_ - 1));
      add_up<T>(lists, 1, once_, words.count, noise_.vectors, sums_[0]);
      for (int64_t p = 0; p < SUMS && k + p < topics_; ++p) {
        Vector<T> total = {};
        for (int64_t v = 0; v < noise_.vectors; ++v) {
          slope_[k + p][v] = (sums_[p][v] - words.total * noise_.weight[0][v]) * share_[k + p][v];
          total += slope_[k + p][v];
        }
        of_words[k + p] = sum(total);
      }
    }
    for (int64_t k = 0; k < topics_; ++k) {
      T pull = in_.linear[d * topics_ + k];
      for (int64_t j = 0; j < topics_; ++j) pull -= prior_.numbers(k)[j] * mean.numbers(0)[j];
      gradient()[k] = of_words[k] + pull;
    }
  }

  // V^-1 E[(z - m) g'] = U^-1 E[e g'], g the slope at a draw m + U'e and V = U'U; symmetric but for the draws.
  void curvature_of_slopes() {
    for (int64_t k = 0; k < topics_; k += SUMS) {
      const T* lists[SUMS];
      for (int64_t p = 0; p < SUMS; ++p) lists[p] = noise_.of_topic.numbers(smaller(k + p, topics_ - 1));
      for (int64_t j = 0; j < topics_; ++j) {
        Vector<T> total[SUMS] = {};
        for (int64_t v = 0; v < noise_.vectors; ++v)
          for (int p = 0; p < SUMS; ++p) total[p] += reinterpret_cast<const Vector<T>*>(lists[p])[v] * slope_[j][v];
        for (int64_t p = 0; p < SUMS && k + p < topics_; ++p) moved_.numbers(k + p)[j] = sum(total[p]);
      }
    }
    for (int64_t i = topics_ - 1; i >= 0; --i) {
      for (int64_t j = i + 1; j < topics_; ++j) {
        const T c = cov_factor_.numbers(i)[j];
        for (int64_t v = 0; v < vectors_; ++v) moved_[i][v] -= c * moved_[j][v];
      }
      const T pivot = cov_factor_.numbers(i)[i];
      for (int64_t v = 0; v < vectors_; ++v) moved_[i][v] /= pivot;
    }
    for (int64_t i = 0; i < topics_; ++i)
      for (int64_t j = 0; j < topics_; ++j) {
        const T hessian = (moved_.numbers(i)[j] + moved_.numbers(j)[i]) / 2;
        const T target = kept(i, j) ? prior_.numbers(i)[j] - hessian : 0;
        move_.numbers(i)[j] = target - precision.numbers(i)[j];
      }
  }

  // Pair after pair of topics, SUMS of them at once.
  void curvatures(const Words<T>& words) {
    const T* lists[SUMS];
    for (int64_t p = 0; p < SUMS; ++p) lists[p] = products_.numbers(p);
    int64_t first[SUMS], second[SUMS], pending = 0;
    const auto finish = [&] {
      add_up<T>(lists, 1, twice_, words.count, noise_.vectors, sums_[0]);
      for (int64_t p = 0; p < pending; ++p) curve(words, first[p], second[p], sums_[p]);
      pending = 0;
    };
    for (int64_t i = 0; i < topics_; ++i)
      for (int64_t j = i; j < (settings_.diagonal ? i + 1 : topics_); ++j) {
        const Vector<T> *a = words.of_topic[i], *b = words.of_topic[j];
        for (int64_t v = 0; v * WIDTH<T> < words.count; ++v) products_[pending][v] = a[v] * b[v];
        first[pending] = i;
        second[pending] = j;
        if (++pending == SUMS) finish();
      }
    if (pending > 0) finish();
  }
  void curve(const Words<T>& words, int64_t i, int64_t j, const Vector<T>* of_pair) {
    Vector<T> total = {};
    for (int64_t v = 0; v < noise_.vectors; ++v)
      total += share_[i][v] * share_[j][v] * (words.total * noise_.weight[0][v] - of_pair[v]);
    const T hessian = sum(total) + (i == j ? small_.numbers(2)[i] : 0);
    const T target = prior_.numbers(i)[j] - hessian;
    move_.numbers(i)[j] = move_.numbers(j)[i] = target - precision.numbers(i)[j];
  }

  // Inner product of the gradient with another in the metric of N(m, V): V times its matrix is `moved`.
  T fisher(const T* other, const Rows<T>& moved) const {
    T total = 0;
    for (int64_t i = 0; i < topics_; ++i)
      for (int64_t j = 0; j < topics_; ++j) {
        total += gradient()[i] * cov_.numbers(i)[j] * other[j];
        total += moved_.numbers(i)[j] * moved.numbers(j)[i] / 2;
      }
    return total;
  }

  // A step of `rho` or less, of which the precision stays above LEAST of what it was; `used` becomes its length.
  void step(T rho, T* used) {
    bool worse = true;
    for (int32_t own = 0; own < MAX_HALVINGS;) {
      land(rho, LEFT, factor_);
      worse = !factorise(factor_, topics_, vectors_);
      if (!worse) break;
      ++halvings_;
      if (++own < MAX_HALVINGS) rho /= 2;
    }
    rho = worse ? 0 : rho;
    land(rho, 0, precision);
    copy(precision, factor_);
    factorise(factor_, topics_, vectors_);
    T *by = small_.numbers(3), *g = gradient();
    for (int64_t k = 0; k < topics_; ++k) by[k] = last()[k] = g[k];
    solve(factor_, topics_, by);
    for (int64_t k = 0; k < topics_; ++k) mean.numbers(0)[k] += rho * by[k];
    copy(move_, last_);
    *used = rho;
  }
  // (1 - less) precision + rho move.
  void land(T rho, double less, const Rows<T>& to) const {
    for (int64_t k = 0; k < topics_; ++k)
      for (int64_t v = 0; v < vectors_; ++v)
        to[k][v] = precision[k][v] + rho * move_[k][v] - static_cast<T>(less) * precision[k][v];
  }

  static constexpr double TIGHT = 0.1, LEFT = 0.4;
  static constexpr int32_t MAX_HALVINGS = 40;

  Gaussians<T> in_;
  Climbing settings_;
  int64_t topics_, vectors_;
  Noise<T> noise_;
  Rows<T> prior_, prior_factor_, factor_, inverse_, cov_, cov_factor_, move_, last_, moved_, moved_last_, small_;
  Rows<T> share_, once_, twice_, slope_, sums_, products_;
  T rho_ = 0;
  int32_t halvings_ = 0;
};

// Key number `i` of those given.
template <class T>
Key key_of(Gaussians<T> in, int64_t i) {
  return {{in.key[2 * i], in.key[2 * i + 1]}};
}

template <class T>
void infer(Gaussians<T> in, Climbing settings, T* mean, T* site, int32_t* halvings) {
  const int64_t topics = in.docs.size.topics;
  Words<T> words(in.docs.size.slots, topics);
  Ascent<T> ascent(in, settings);
  for (int64_t d = 0; d < in.docs.size.docs; ++d) {
    words.read(in.docs, d);
    halvings[d] = in.own_keys ? ascent(words, d, key_of(in, d), 0) : ascent(words, d, key_of(in, 0), d);
    ascent.give(mean + d * topics, site + d * topics * topics);
  }
}

// --- the bound -------------------------------------------------------------------------------------------------------

// Of one document at its q(z), all but what the law of z has beside its precision P:
//   sum_n c_n E log sum_k softmax(z)_k l_nk - <P, E z z'> / 2 + K / 2 - log|V^-1| / 2.
// Its gradient in l and, but for the sign and the half, in P is added up, by the weights of documents.
template <class T>
class Bound {
 public:
  Bound(Sizes size, Drawing how)
      : topics_(size.topics),
        vectors_(num_vectors<T>(size.topics)),
        noise_(how, size.topics),
        factor_(topics_, vectors_),
        inverse_(topics_, vectors_),
        cov_(topics_, vectors_),
        share_(topics_, noise_.vectors),
        by_draw_(noise_.draws, vectors_),
        mixed_(size.slots + SUMS, noise_.vectors),
        logs_(1, noise_.vectors),
        sums_(SUMS, vectors_) {}

  T operator()(const Words<T>& words, const Ascent<T>& at, Key key, T weight, T* second, T* gradient) {
    T value = static_cast<T>(0.5) * topics_;
    __builtin_memcpy(factor_.numbers(0), at.precision.numbers(0), topics_ * vectors_ * 64);
    factorise(factor_, topics_, vectors_);
    for (int64_t k = 0; k < topics_; ++k) value -= logarithm(factor_.numbers(k)[k]);
    invert(factor_, topics_, vectors_, inverse_, cov_);
    for (int64_t i = 0; i < topics_; ++i)
      for (int64_t j = 0; j < topics_; ++j) {
        const T own = cov_.numbers(i)[j] + at.mean.numbers(0)[i] * at.mean.numbers(0)[j];
        value -= at.prior().numbers(i)[j] * own / 2;
        second[i * topics_ + j] += weight * own;
      }
    if (words.count == 0) return value;
    factorise(cov_, topics_, vectors_);
    noise_.draw(key, 0);
    draw_shares<T>(at.mean.numbers(0), cov_, noise_, topics_, 0, share_);
    mix(words, share_, topics_, noise_.vectors, mixed_);
    for (int64_t n = 0; n < words.count; ++n) value += of_word(words, n, weight);
    add_gradient(words, gradient);
    return value;
  }

 private:
  // Its value; `mixed` becomes what its gradient is a sum of, by draws.
  T of_word(const Words<T>& words, int64_t n, T weight) {
    const T tokens = words.tokens.numbers(0)[n], scale = words.scale.numbers(0)[n];
    T* logs = logs_.numbers(0);
    const T* mixed = mixed_.numbers(n);
#pragma omp simd
    for (int64_t s = 0; s < noise_.vectors * WIDTH<T>; ++s) logs[s] = logarithm(mixed[s]);
    const T value = tokens * (logarithm(scale) + dot<T>(logs_[0], noise_.weight[0], noise_.vectors));
    for (int64_t v = 0; v < noise_.vectors; ++v)
      mixed_[n][v] = weight * tokens / scale * noise_.weight[0][v] / mixed_[n][v];
    return value;
  }
  // SUMS words at once.
  void add_gradient(const Words<T>& words, T* gradient) {
    for (int64_t k = 0; k < topics_; ++k)
      for (int64_t s = 0; s < noise_.draws; ++s) by_draw_.numbers(s)[k] = share_.numbers(k)[s];
    for (int64_t n = 0; n < words.count; n += SUMS) {
      const T* lists[SUMS];
      for (int p = 0; p < SUMS; ++p) lists[p] = mixed_.numbers(n + p);
      add_up<T>(lists, 1, by_draw_, noise_.draws, vectors_, sums_[0]);
      for (int64_t p = 0; p < SUMS && n + p < words.count; ++p) {
        T* to = gradient + words.slot.numbers(0)[n + p] * topics_;
        for (int64_t k = 0; k < topics_; ++k) to[k] += sums_.numbers(p)[k];
      }
    }
  }

  int64_t topics_, vectors_;
  Noise<T> noise_;
  Rows<T> factor_, inverse_, cov_, share_, by_draw_, mixed_, logs_, sums_;
};

template <class T>
void step(Gaussians<T> in, Climbing settings, Drawing bounding, const T* weights, T* mean, T* site, int32_t* halvings,
          T* bound, T* second, T* gradient) {
  const int64_t topics = in.docs.size.topics;
  Words<T> words(in.docs.size.slots, topics);
  Ascent<T> ascent(in, settings);
  Bound<T> bounded(in.docs.size, bounding);
  clear(second, topics * topics);
  for (int64_t d = 0; d < in.docs.size.docs; ++d) {
    words.read(in.docs, d);
    const Key own = key_of(in, d);
    halvings[d] = ascent(words, d, own.split(0), 0);
    ascent.give(mean + d * topics, site + d * topics * topics);
    bound[d] = bounded(words, ascent, own.split(1), weights[d], second, gradient);
  }
}

}  // namespace

const LogisticNormals<float> normal_floats = {infer<float>, step<float>};
const LogisticNormals<double> normal_doubles = {infer<double>, step<double>};

}  // namespace LEVEL
