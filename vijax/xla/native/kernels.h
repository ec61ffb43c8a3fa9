// E-steps of mixed membership, document after document: what vijax/estep says, written out.
//
// Arrays are dense and row-major: likelihood and token_topics (docs, slots, topics), counts (docs, slots), start and
// gamma (docs, topics), alpha (topics). Every function fills gamma and token_topics as `vijax.contract.estep.Locals` has
// them.
#pragma once
#include <cstdint>

struct Sizes {
  int64_t docs, slots, topics;
};

template <class T>
struct Documents {
  Sizes size;
  const T* likelihood;
  const T* counts;
  const T* alpha;
  const int32_t* words;  // none, or of each slot its row, where `likelihood` is a table
};

struct Settings {
  int64_t max_iters;
  double tol;
};

template <class T>
struct Kernels {
  void (*cvb0)(Documents<T>, const T* start, Settings, T* gamma, T* token_topics);
  void (*mean_field)(Documents<T>, const T* start, Settings, T* gamma);
  void (*gibbs)(Documents<T>, const uint32_t* seed, int64_t max_tokens, int64_t burn_in, int64_t num_sweeps, T* gamma,
                T* token_topics);
  // Of rows of a table: also the expected log likelihood of each document, whose gradient in the table, by the weights
  // of documents, is added to `gradient`.
  void (*cvb0_step)(Documents<T>, const T* weights, const T* start, Settings, T* gamma, T* bound, T* gradient);
  void (*mean_field_step)(Documents<T>, const T* weights, const T* start, Settings, T* gamma, T* bound, T* gradient);
};

// Draws of a normal vector for each document: in pairs m + e, m - e; of the covariance meant; so many that the curvature
// can be had of the slopes.
struct Drawing {
  int64_t draws;
  bool antithetic, matched, by_slopes;
};

// Documents whose topics are logistic normal, N(mean, P^-1); linear (docs, topics) is P times the mean. `mean` and `site`
// (docs, topics, topics) are those of the last visit, zeros where there is none.
template <class T>
struct Gaussians {
  Documents<T> docs;
  const T* linear;
  const T* precision;
  const T* mean;
  const T* site;
  const uint32_t* key;  // two words, or two for each document
  bool own_keys;        // whether each document has a key of its own; else draws are by its place
};

struct Climbing {
  Drawing drawing;
  bool diagonal;
  double step_size;
  int64_t max_iters;
  double tol;
  int64_t refine;
};

template <class T>
struct LogisticNormals {
  void (*infer)(Gaussians<T>, Climbing, T* mean, T* site, int32_t* halvings);
  // Of rows of a table, with own keys: also the bound of each document, averaged by `Drawing`; the sum of E z z', and what
  // is added to the gradient in the table, both by the weights of documents.
  void (*step)(Gaussians<T>, Climbing, Drawing, const T* weights, T* mean, T* site, int32_t* halvings, T* bound,
               T* second, T* gradient);
};

// Of words (docs, slots) in a table of concentrations (words, topics), and those of all words: the `most` topics of each
// document; how many of these leave to others no more than a share `may_miss` of its tokens; and what others then have.
template <class T>
using Choose = void (*)(Sizes size, const T* table, const T* totals, const int32_t* words, const T* counts, T alpha,
                        int64_t most, T may_miss, int32_t* chosen, int32_t* used, T* left);
// The different ones of some ids from 0 and below `universe`, increasing and filled up with it; and where each is among them.
using Distinct = void (*)(const int32_t* given, int64_t count, int32_t universe, int64_t capacity, int32_t* ids,
                          int32_t* places);

// Of elements `begin` to `end` of an array of concentrations a, no more than GAMMA_PART of them, beginning with a
// multiple of it: log x - log(a + 2/3) of draws x ~ Gamma(a, 1). The seed is two words.
constexpr int64_t GAMMA_PART = 1 << 15;
using GammaOffsets = void (*)(const uint32_t* seed, const float* a, int64_t begin, int64_t end, float* out);

// The same functions, compiled for processors of three kinds.
#define VIJAX_LEVEL(name)                              \
  namespace name {                                     \
  extern const Kernels<float> floats;                  \
  extern const Kernels<double> doubles;                \
  extern const LogisticNormals<float> normal_floats;   \
  extern const LogisticNormals<double> normal_doubles; \
  extern const Choose<float> choose_floats;            \
  extern const Choose<double> choose_doubles;          \
  extern const Distinct distinct;                      \
  extern const GammaOffsets gamma_offsets;             \
  }
VIJAX_LEVEL(baseline)
VIJAX_LEVEL(avx2)
VIJAX_LEVEL(avx512)
