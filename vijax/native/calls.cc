// The kernels as XLA calls them.
#include "kernels.h"
#include "xla/ffi/api/ffi.h"

namespace {
namespace ffi = xla::ffi;

// The level of this processor.
template <class T>
const Kernels<T>& kernels();
#if defined(VIJAX_X86)
int most_level = 2;
int level() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const int found = avx2 + avx512;
  return found < most_level ? found : most_level;
}
template <>
const Kernels<float>& kernels() {
  static const Kernels<float>* const each[] = {&baseline::floats, &avx2::floats, &avx512::floats};
  return *each[level()];
}
template <>
const Kernels<double>& kernels() {
  static const Kernels<double>* const each[] = {&baseline::doubles, &avx2::doubles, &avx512::doubles};
  return *each[level()];
}
#else
int most_level = 0;
int level() { return 0; }
template <>
const Kernels<float>& kernels() { return baseline::floats; }
template <>
const Kernels<double>& kernels() { return baseline::doubles; }
#endif

template <ffi::DataType D>
using Number = ffi::NativeType<D>;

template <ffi::DataType D>
Documents<Number<D>> documents(ffi::Buffer<D>& likelihood, ffi::Buffer<D>& counts, ffi::Buffer<D>& alpha) {
  auto size = likelihood.dimensions();
  return {{size[0], size[1], size[2]}, likelihood.typed_data(), counts.typed_data(), alpha.typed_data()};
}

template <ffi::DataType D>
ffi::Error cvb0(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<D> start,
                int64_t max_iters, double tol, ffi::ResultBuffer<D> gamma, ffi::ResultBuffer<D> token_topics) {
  kernels<Number<D>>().cvb0(documents<D>(likelihood, counts, alpha), start.typed_data(), max_iters, tol,
                            gamma->typed_data(), token_topics->typed_data());
  return ffi::Error::Success();
}

template <ffi::DataType D>
ffi::Error mean_field(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<D> start,
                      int64_t max_iters, double tol, ffi::ResultBuffer<D> gamma) {
  kernels<Number<D>>().mean_field(documents<D>(likelihood, counts, alpha), start.typed_data(), max_iters, tol,
                                  gamma->typed_data());
  return ffi::Error::Success();
}

template <ffi::DataType D>
ffi::Error gibbs(ffi::Buffer<D> likelihood, ffi::Buffer<D> counts, ffi::Buffer<D> alpha, ffi::Buffer<ffi::U32> seed,
                 int64_t max_tokens, int64_t burn_in, int64_t num_sweeps, ffi::ResultBuffer<D> gamma,
                 ffi::ResultBuffer<D> token_topics) {
  kernels<Number<D>>().gibbs(documents<D>(likelihood, counts, alpha), seed.typed_data(), max_tokens, burn_in,
                             num_sweeps, gamma->typed_data(), token_topics->typed_data());
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
}  // namespace

#define BOTH(name, binding, more)                                                             \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_float32, ::name<ffi::F32>, binding<ffi::F32>() more(ffi::F32)); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name##_float64, ::name<ffi::F64>, binding<ffi::F64>() more(ffi::F64))
#define NOTHING(D)
#define AND_TOKENS(D) .Ret<ffi::Buffer<D>>()

BOTH(cvb0, climbing, AND_TOKENS);
BOTH(mean_field, climbing, NOTHING);
BOTH(gibbs, sampling, NOTHING);

// For tests: no level above this one; the level that is then taken.
extern "C" int vijax_level(int most) {
  most_level = most;
  return level();
}

// Of which version of XLA's interface they are.
extern "C" int vijax_major() { return XLA_FFI_API_MAJOR; }
extern "C" int vijax_minor() { return XLA_FFI_API_MINOR; }
