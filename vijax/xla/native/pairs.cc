// What a step needs to know of pairs of a word and a topic, where documents are held to some of the topics: which those
// topics are, and which pairs there are. See vijax/topics/active_topics.py and vijax/families/discrete/by_pair.py. Compiled once
// for each level of processors, as namespace LEVEL.
#include "kernels.h"
#include "vectors.h"

namespace LEVEL {
namespace {

template <class T>
constexpr T INFINITE = static_cast<T>(__builtin_inf());

// The places of the `most` largest of `count` numbers, the largest first, of equal ones the earlier.
template <class T>
void largest(const T* x, int64_t count, int64_t most, T* kept, int32_t* places) {
  int64_t found = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (found == most && !(x[k] > kept[most - 1])) continue;
    int64_t at = found < most ? found++ : most - 1;
    for (; at > 0 && x[k] > kept[at - 1]; --at) {
      kept[at] = kept[at - 1];
      places[at] = places[at - 1];
    }
    kept[at] = x[k];
    places[at] = static_cast<int32_t>(k);
  }
}

// How many of the first numbers it takes for their sum to come to `wanted`, one at least; all of them where it does not.
// `rest` becomes `total` less that sum.
template <class T>
int32_t enough(const T* kept, int64_t most, T wanted, T total, T* rest) {
  T sum = kept[0];
  int64_t used = 1;
  while (used < most && sum < wanted) sum += kept[used++];
  *rest = total - sum;
  return static_cast<int32_t>(used);
}

// A row becomes its numbers by those of `by`, in shares of their sum.
template <class T>
void share_out(Vector<T>* row, const Vector<T>* by, int64_t vectors) {
  Vector<T> total = {};
  for (int64_t v = 0; v < vectors; ++v) total += row[v] *= by[v];
  const T scale = 1 / sum(total);
  for (int64_t v = 0; v < vectors; ++v) row[v] *= scale;
}

template <class T>
void choose(Sizes size, const T* table, const T* totals, const int32_t* words, const T* counts, T alpha, int64_t most,
            T may_miss, int32_t* chosen, int32_t* used, T* left) {
  const int64_t topics = size.topics, vectors = num_vectors<T>(topics);
  Rows<T> shares(size.slots, vectors), scratch(4, vectors);
  Vector<T> *inverse = scratch[0], *weights = scratch[1], *found = scratch[2];
  for (int64_t k = 0; k < topics; ++k) scratch.numbers(0)[k] = 1 / totals[k];
  for (int64_t d = 0; d < size.docs; ++d) {
    const int32_t* ids = words + d * size.slots;
    const T* given = counts + d * size.slots;
    for (int64_t v = 0; v < vectors; ++v) {
      weights[v] = Vector<T>{} + alpha;
      found[v] = Vector<T>{};
    }
    for (int64_t n = 0; n < size.slots; ++n) {
      if (given[n] == 0) continue;
      shares.fill(n, table + ids[n] * topics, topics);
      share_out<T>(shares[n], inverse, vectors);
      for (int64_t v = 0; v < vectors; ++v) weights[v] += given[n] * shares[n][v];
    }
    for (int64_t n = 0; n < size.slots; ++n) {
      if (given[n] == 0) continue;
      Vector<T> level = {};
      for (int64_t v = 0; v < vectors; ++v) level += shares[n][v] * weights[v];
      const T factor = given[n] / sum(level);
      for (int64_t v = 0; v < vectors; ++v) found[v] += factor * shares[n][v];
    }
    Vector<T> total = {};
    for (int64_t v = 0; v < vectors; ++v) total += found[v] *= weights[v];
    largest<T>(scratch.numbers(2), topics, most, scratch.numbers(3), chosen + d * most);
    const T all = sum(total), wanted = may_miss > 0 ? (1 - may_miss) * all : INFINITE<T>;
    used[d] = enough<T>(scratch.numbers(3), most, wanted, all, left + d);
  }
}

// A bit for each id; and before each word of bits, how many ids are in those before it.
class Marks {
 public:
  explicit Marks(int64_t universe)
      : size_((universe + 63) / 64),
        bits_(static_cast<uint64_t*>(calloc(size_ + 1, sizeof(uint64_t)))),
        before_(static_cast<int32_t*>(calloc(size_ + 1, sizeof(int32_t)))) {
    if (bits_ == nullptr || before_ == nullptr) __builtin_trap();
  }
  ~Marks() {
    free(bits_);
    free(before_);
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  void set(int32_t id) { bits_[id >> 6] |= uint64_t{1} << (id & 63); }
  // Of ids in increasing order, no more than `most`; the rest is filled up.
  void list(int32_t* ids, int64_t most, int32_t filling) {
    int64_t count = 0;
    for (int64_t i = 0; i < size_; ++i) {
      before_[i] = static_cast<int32_t>(count);
      for (uint64_t left = bits_[i]; left != 0; left &= left - 1, ++count)
        if (count < most) ids[count] = static_cast<int32_t>(64 * i + __builtin_ctzll(left));
    }
    for (; count < most; ++count) ids[count] = filling;
  }
  int32_t place(int32_t id) const {
    const uint64_t below = bits_[id >> 6] & ((uint64_t{1} << (id & 63)) - 1);
    return before_[id >> 6] + __builtin_popcountll(below);
  }

 private:
  int64_t size_;
  uint64_t* bits_;
  int32_t* before_;
};

void list_distinct(const int32_t* given, int64_t count, int32_t universe, int64_t capacity, int32_t* ids, int32_t* places) {
  Marks marks(universe);
  for (int64_t i = 0; i < count; ++i)
    if (given[i] < universe) marks.set(given[i]);
  marks.list(ids, capacity, universe);
  for (int64_t i = 0; i < count; ++i) places[i] = given[i] < universe ? marks.place(given[i]) : 0;
}

}  // namespace

const Choose<float> choose_floats = choose<float>;
const Choose<double> choose_doubles = choose<double>;
const Distinct distinct = list_distinct;

}  // namespace LEVEL
