// The kernels as XLA calls them.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernels.h"
#include "xla/ffi/api/ffi.h"

namespace {
namespace ffi = xla::ffi;

// The level of this processor.
#if defined(VIJAX_X86)
int most_level = 2;
int level() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const int found = avx2 + avx512;
  return found < most_level ? found : most_level;
}
#define BEST(name) (level() == 2 ? avx512::name : level() == 1 ? avx2::name : baseline::name)
#else
int most_level = 0;
int level() { return 0; }
#define BEST(name) baseline::name
#endif

template <class T>
const Kernels<T>& kernels();
template <>
const Kernels<float>& kernels() { return BEST(floats); }
template <>
const Kernels<double>& kernels() { return BEST(doubles); }
template <class T>
const LogisticNormals<T>& normals();
template <>
const LogisticNormals<float>& normals() { return BEST(normal_floats); }
template <>
const LogisticNormals<double>& normals() { return BEST(normal_doubles); }
template <class T>
Choose<T> choosing();
template <>
Choose<float> choosing() { return BEST(choose_floats); }
template <>
Choose<double> choosing() { return BEST(choose_doubles); }

template <ffi::DataType D>
using Number = ffi::NativeType<D>;

template <ffi::DataType D>
Documents<Number<D>> documents(ffi::Buffer<D>& likelihood, ffi::Buffer<D>& counts, ffi::Buffer<D>& alpha) {
  auto size = likelihood.dimensions();
  return {{size[0], size[1], size[2]}, likelihood.typed_data(), counts.typed_data(), alpha.typed_data(), nullptr};
}

template <ffi::DataType D>
ffi::Error cvb0(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<D> start,
                int64_t max_iters, double tol, ffi::ResultBuffer<D> gamma, ffi::ResultBuffer<D> token_topics) {
  kernels<Number<D>>().cvb0(documents<D>(likelihood, counts, alpha), start.typed_data(), {max_iters, tol},
                            gamma->typed_data(), token_topics->typed_data());
  return ffi::Error::Success();
}

template <ffi::DataType D>
ffi::Error mean_field(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<D> start,
                      int64_t max_iters, double tol, ffi::ResultBuffer<D> gamma) {
  kernels<Number<D>>().mean_field(documents<D>(likelihood, counts, alpha), start.typed_data(), {max_iters, tol},
                                  gamma->typed_data());
  return ffi::Error::Success();
}

// An error at a word that is no row of the table: a kernel would read, and write, what is not its own.
template <ffi::DataType D>
ffi::Error check_words(ffi::Buffer<ffi::S32>& words, ffi::Buffer<D>& counts, int64_t rows) {
  for (size_t i = 0; i < words.element_count(); ++i) {
    const int32_t id = words.typed_data()[i];
    if (counts.typed_data()[i] != 0 && (id < 0 || id >= rows))
      return ffi::Error::InvalidArgument("words: expected ids from 0 to " + std::to_string(rows - 1) + ", got " +
                                         std::to_string(id) + ". Give the model the vocabulary of its data.");
  }
  return ffi::Error::Success();
}

// `gradient` is the same buffer as `before`.
template <ffi::DataType D, auto STEP>
ffi::Error step(ffi::Buffer<D> table, ffi::Buffer<ffi::S32> words, ffi::Buffer<D> counts, ffi::Buffer<D> weights,
                ffi::Buffer<D> alpha, ffi::Buffer<D> start, ffi::Buffer<D> before, int64_t max_iters, double tol,
                ffi::ResultBuffer<D> gamma, ffi::ResultBuffer<D> bound, ffi::ResultBuffer<D> gradient) {
  using T = Number<D>;
  if (ffi::Error error = check_words<D>(words, counts, table.dimensions()[0]); error.failure()) return error;
  const Sizes size = {words.dimensions()[0], words.dimensions()[1], table.dimensions()[1]};
  if (gradient->typed_data() != before.typed_data() && before.element_count() > 0)
    std::memcpy(gradient->typed_data(), before.typed_data(), before.element_count() * sizeof(T));
  const Documents<T> in = {size, table.typed_data(), counts.typed_data(), alpha.typed_data(), words.typed_data()};
  (kernels<T>().*STEP)(in, weights.typed_data(), start.typed_data(), {max_iters, tol}, gamma->typed_data(),
                       bound->typed_data(), gradient->typed_data());
  return ffi::Error::Success();
}
template <ffi::DataType D>
constexpr auto cvb0_step = step<D, &Kernels<Number<D>>::cvb0_step>;
template <ffi::DataType D>
constexpr auto mean_field_step = step<D, &Kernels<Number<D>>::mean_field_step>;

template <ffi::DataType D>
ffi::Error gibbs(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<ffi::U32> seed,
                 int64_t max_tokens, int64_t burn_in, int64_t num_sweeps, ffi::ResultBuffer<D> gamma,
                 ffi::ResultBuffer<D> token_topics) {
  kernels<Number<D>>().gibbs(documents<D>(likelihood, counts, alpha), seed.typed_data(), max_tokens, burn_in,
                             num_sweeps, gamma->typed_data(), token_topics->typed_data());
  return ffi::Error::Success();
}

// Settings by their names; those that are missing are noticed.
struct Settled {
  ffi::Dictionary from;
  bool complete = true;
  template <class T>
  T get(const char* name) {
    auto found = from.get<T>(name);
    complete = complete && found.has_value();
    return found.has_value() ? found.value() : T();
  }
  int64_t whole(const char* name) { return get<int64_t>(name); }
};
Climbing climbing_of(Settled& settings) {
  const Drawing drawing = {settings.whole("draws"), settings.whole("antithetic") != 0, settings.whole("matched") != 0,
                           settings.whole("by_slopes") != 0};
  const double step_size = settings.get<double>("step_size"), tol = settings.get<double>("tol");
  return {drawing, settings.whole("diagonal") != 0, step_size, settings.whole("max_iters"), tol, settings.whole("refine")};
}
ffi::Error incomplete() { return ffi::Error::InvalidArgument("settings: one is missing. Install vijax again."); }
template <ffi::DataType D>
ffi::Error logistic_normal(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> linear,
                           ffi::Buffer<D> precision, ffi::Buffer<D> mean, ffi::Buffer<D> site,
                           ffi::Buffer<ffi::U32> key, ffi::Dictionary settings, ffi::ResultBuffer<D> found,
                           ffi::ResultBuffer<D> found_site, ffi::ResultBuffer<ffi::S32> halvings) {
  auto size = likelihood.dimensions();
  Settled named = {settings};
  const Climbing climbing = climbing_of(named);
  if (!named.complete) return incomplete();
  const Documents<Number<D>> docs = {{size[0], size[1], size[2]}, likelihood.typed_data(), counts.typed_data(), nullptr, nullptr};
  const bool own_keys = key.dimensions().size() == 2;
  normals<Number<D>>().infer({docs, linear.typed_data(), precision.typed_data(), mean.typed_data(), site.typed_data(),
                              key.typed_data(), own_keys},
                             climbing, found->typed_data(), found_site->typed_data(), halvings->typed_data());
  return ffi::Error::Success();
}

// `gradient` is the same buffer as `before`.
template <ffi::DataType D>
ffi::Error logistic_normal_step(ffi::Buffer<D> table, ffi::Buffer<ffi::S32> words, ffi::Buffer<D> counts,
                                ffi::Buffer<D> weights, ffi::Buffer<D> linear, ffi::Buffer<D> precision,
                                ffi::Buffer<D> mean, ffi::Buffer<D> site, ffi::Buffer<ffi::U32> key,
                                ffi::Buffer<D> before, ffi::Dictionary settings,
                                ffi::ResultBuffer<D> found, ffi::ResultBuffer<D> found_site,
                                ffi::ResultBuffer<ffi::S32> halvings, ffi::ResultBuffer<D> bound,
                                ffi::ResultBuffer<D> second, ffi::ResultBuffer<D> gradient) {
  using T = Number<D>;
  if (ffi::Error error = check_words<D>(words, counts, table.dimensions()[0]); error.failure()) return error;
  auto size = words.dimensions();
  if (gradient->typed_data() != before.typed_data() && before.element_count() > 0)
    std::memcpy(gradient->typed_data(), before.typed_data(), before.element_count() * sizeof(T));
  const Documents<T> docs = {{size[0], size[1], table.dimensions()[1]}, table.typed_data(), counts.typed_data(), nullptr, words.typed_data()};
  Settled named = {settings};
  const Climbing climbing = climbing_of(named);
  const Drawing bounding = {named.whole("bound_draws"), true, false, false};
  if (!named.complete) return incomplete();
  if (key.element_count() != 2 * static_cast<size_t>(size[0]))
    return ffi::Error::InvalidArgument("keys: expected one for each document. Install vijax again.");
  normals<T>().step({docs, linear.typed_data(), precision.typed_data(), mean.typed_data(), site.typed_data(),
                     key.typed_data(), true},
                    climbing, bounding, weights.typed_data(), found->typed_data(),
                    found_site->typed_data(), halvings->typed_data(), bound->typed_data(), second->typed_data(),
                    gradient->typed_data());
  return ffi::Error::Success();
}

template <ffi::DataType D>
ffi::Error choose(ffi::Buffer<D> table, ffi::Buffer<D> totals, ffi::Buffer<ffi::S32> words, ffi::Buffer<D> counts,
                  ffi::Buffer<D> alpha, double may_miss, ffi::ResultBuffer<ffi::S32> topics,
                  ffi::ResultBuffer<ffi::S32> used, ffi::ResultBuffer<D> left) {
  if (ffi::Error error = check_words<D>(words, counts, table.dimensions()[0]); error.failure()) return error;
  auto docs = words.dimensions();
  choosing<Number<D>>()({docs[0], docs[1], table.dimensions()[1]}, table.typed_data(), totals.typed_data(),
                        words.typed_data(), counts.typed_data(), alpha.typed_data()[0], topics->dimensions()[1],
                        static_cast<Number<D>>(may_miss), topics->typed_data(), used->typed_data(), left->typed_data());
  return ffi::Error::Success();
}

ffi::Error distinct(ffi::Buffer<ffi::S32> given, int64_t universe, ffi::ResultBuffer<ffi::S32> ids,
                    ffi::ResultBuffer<ffi::S32> places) {
  if (universe < 0 || universe > INT32_MAX)
    return ffi::Error::InvalidArgument("universe: expected a number of 31 bits, got " + std::to_string(universe));
  for (size_t i = 0; i < given.element_count(); ++i)
    if (const int32_t id = given.typed_data()[i]; id < 0)
      return ffi::Error::InvalidArgument("ids: expected none below 0, got " + std::to_string(id));
  BEST(distinct)(given.typed_data(), given.element_count(), static_cast<int32_t>(universe), ids->element_count(),
                 ids->typed_data(), places->typed_data());
  return ffi::Error::Success();
}

// f(0), ..., f(count - 1), each once: by this thread, and by those of XLA that are free before it is through. One that
// comes later finds nothing to do, so nobody waits for a thread that is busy elsewhere.
template <class F>
void in_parallel(ffi::ThreadPool& pool, int64_t count, F f) {
  struct Progress {
    std::atomic<int64_t> next{0};
    std::mutex mutex;
    std::condition_variable all;
    int64_t done = 0;
  };
  auto progress = std::make_shared<Progress>();
  auto work = [progress, count, f] {
    int64_t own = 0;
    for (int64_t i = progress->next++; i < count; i = progress->next++, ++own) f(i);
    const std::lock_guard<std::mutex> lock(progress->mutex);
    progress->done += own;
    if (own > 0 && progress->done == count) progress->all.notify_one();
  };
  const int64_t threads = pool.num_threads() < count ? pool.num_threads() : count;
  for (int64_t i = 1; i < threads; ++i) {
    auto another = work;
    pool.Schedule(std::move(another));
  }
  work();
  std::unique_lock<std::mutex> lock(progress->mutex);
  progress->all.wait(lock, [&] { return progress->done == count; });
}

// A row of draws for each seed.
ffi::Error gamma_offsets(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> seeds, ffi::Buffer<ffi::F32> a,
                         ffi::ResultBuffer<ffi::F32> out) {
  const int64_t rows = seeds.element_count() / 2, size = rows > 0 ? a.element_count() / rows : 0;
  const int64_t parts = (size + GAMMA_PART - 1) / GAMMA_PART;
  const uint32_t* seed = seeds.typed_data();
  const float* given = a.typed_data();
  float* found = out->typed_data();
  in_parallel(pool, rows * parts, [=](int64_t i) {
    const int64_t row = i / parts, begin = i % parts * GAMMA_PART;
    const int64_t end = begin + GAMMA_PART < size ? begin + GAMMA_PART : size;
    BEST(gamma_offsets)(seed + 2 * row, given + row * size, begin, end, found + row * size);
  });
  return ffi::Error::Success();
}

template <ffi::DataType D>
auto inputs() {
  return ffi::Ffi::Bind().Arg<ffi::Buffer<D>>().template Arg<ffi::Buffer<D>>().template Arg<ffi::Buffer<D>>();
}
template <ffi::DataType D>
auto climbing() {
  return inputs<D>()
      .template Arg<ffi::Buffer<D>>()
      .template Attr<int64_t>("max_iters")
      .template Attr<double>("tol")
      .template Ret<ffi::Buffer<D>>();
}
template <ffi::DataType D>
auto sampling() {
  return inputs<D>()
      .template Arg<ffi::Buffer<ffi::U32>>()
      .template Attr<int64_t>("max_tokens")
      .template Attr<int64_t>("burn_in")
      .template Attr<int64_t>("num_sweeps")
      .template Ret<ffi::Buffer<D>>()
      .template Ret<ffi::Buffer<D>>();
}
template <ffi::DataType D>
auto stepping() {
  using Numbers = ffi::Buffer<D>;
  return ffi::Ffi::Bind()
      .Arg<Numbers>()
      .template Arg<ffi::Buffer<ffi::S32>>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Attr<int64_t>("max_iters")
      .template Attr<double>("tol")
      .template Ret<Numbers>()
      .template Ret<Numbers>()
      .template Ret<Numbers>();
}
template <ffi::DataType D>
auto choice() {
  return ffi::Ffi::Bind()
      .Arg<ffi::Buffer<D>>()
      .template Arg<ffi::Buffer<D>>()
      .template Arg<ffi::Buffer<ffi::S32>>()
      .template Arg<ffi::Buffer<D>>()
      .template Arg<ffi::Buffer<D>>()
      .template Attr<double>("may_miss")
      .template Ret<ffi::Buffer<ffi::S32>>()
      .template Ret<ffi::Buffer<ffi::S32>>()
      .template Ret<ffi::Buffer<D>>();
}
template <ffi::DataType D>
auto inferring() {
  using Numbers = ffi::Buffer<D>;
  return ffi::Ffi::Bind()
      .Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<ffi::Buffer<ffi::U32>>()
      .template Attrs<ffi::Dictionary>()
      .template Ret<Numbers>()
      .template Ret<Numbers>()
      .template Ret<ffi::Buffer<ffi::S32>>();
}
template <ffi::DataType D>
auto bounding() {
  using Numbers = ffi::Buffer<D>;
  return ffi::Ffi::Bind()
      .Arg<Numbers>()
      .template Arg<ffi::Buffer<ffi::S32>>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<Numbers>()
      .template Arg<ffi::Buffer<ffi::U32>>()
      .template Arg<Numbers>()
      .template Attrs<ffi::Dictionary>()
      .template Ret<Numbers>()
      .template Ret<Numbers>()
      .template Ret<ffi::Buffer<ffi::S32>>()
      .template Ret<Numbers>()
      .template Ret<Numbers>()
      .template Ret<Numbers>();
}
auto listing() {
  using Ids = ffi::Buffer<ffi::S32>;
  return ffi::Ffi::Bind().Arg<Ids>().Attr<int64_t>("universe").Ret<Ids>().Ret<Ids>();
}
auto drawing() {
  using Numbers = ffi::Buffer<ffi::F32>;
  return ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::U32>>().Arg<Numbers>().Ret<Numbers>();
}
}  // namespace

#define BOTH(name, binding, more)                                                             \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_float32, ::name<ffi::F32>, binding<ffi::F32>() more(ffi::F32)); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_float64, ::name<ffi::F64>, binding<ffi::F64>() more(ffi::F64))
#define NOTHING(D)
#define AND_TOKENS(D) .Ret<ffi::Buffer<D>>()

BOTH(cvb0, climbing, AND_TOKENS);
BOTH(mean_field, climbing, NOTHING);
BOTH(gibbs, sampling, NOTHING);
BOTH(choose, choice, NOTHING);
BOTH(cvb0_step, stepping, NOTHING);
BOTH(mean_field_step, stepping, NOTHING);
BOTH(logistic_normal, inferring, NOTHING);
BOTH(logistic_normal_step, bounding, NOTHING);
XLA_FFI_DEFINE_HANDLER_SYMBOL(distinct_int32, ::distinct, listing());
XLA_FFI_DEFINE_HANDLER_SYMBOL(gamma_offsets_float32, ::gamma_offsets, drawing());

// For tests: no level above this one; the level that is then taken.
extern "C" int vijax_level(int most) {
  most_level = most;
  return level();
}

// Of which version of XLA's interface they are.
extern "C" int vijax_major() { return XLA_FFI_API_MAJOR; }
extern "C" int vijax_minor() { return XLA_FFI_API_MINOR; }
