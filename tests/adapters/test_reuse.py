"""A model of NumPyro that is made again is the model made before, and nothing else is."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.programs import compiled, names_since

numpyro = pytest.importorskip("numpyro")
from numpyro.distributions import HalfNormal, Normal  # noqa: E402

Y = np.random.default_rng(0).normal(size=8)
SCALE = 1.0


def story(y, scale=1.0):
    mean = numpyro.sample("mean", Normal(0, 10))
    numpyro.deterministic("twice", scale * mean)
    numpyro.sample("y", Normal(mean, numpyro.sample("sd", HalfNormal(1))), obs=y)


def made_inside(factor):
    def inner(y):
        mean = numpyro.sample("mean", Normal(0, 10))
        numpyro.sample("y", Normal(factor * mean, 1), obs=y)

    return inner


def of_a_global(y):
    numpyro.sample("y", Normal(numpyro.sample("mean", Normal(0, SCALE)), 1), obs=y)


def centred(y):
    sd = numpyro.sample("sd", HalfNormal(1))
    numpyro.sample(
        "y",
        Normal(numpyro.sample("x", Normal(0, sd).expand([8]).to_event(1)), 1).to_event(1),
        obs=y,
    )


def by_factor(y):
    """The same density; nothing says that the law of x depends on sd."""
    sd = numpyro.sample("sd", HalfNormal(1))
    x = numpyro.sample(
        "x", numpyro.distributions.ImproperUniform(numpyro.distributions.constraints.real, (), (8,))
    )
    numpyro.factor("law", Normal(0, sd).log_prob(x).sum())
    numpyro.sample("y", Normal(x, 1).to_event(1), obs=y)


def test_equal_models_are_one_object():
    first = vi.from_numpyro(story, Y)
    assert vi.from_numpyro(story, Y.copy()) is first
    inner = vi.from_numpyro(made_inside(2.0), Y)
    assert vi.from_numpyro(made_inside(2.0), Y) is inner


def test_a_second_fit_compiles_nothing():
    first = vi.auto(vi.from_numpyro(made_inside(3.0), Y), key=jax.random.key(0))
    before = compiled()
    again = vi.auto(vi.from_numpyro(made_inside(3.0), Y), key=jax.random.key(0))
    assert names_since(before) == []
    np.testing.assert_array_equal(first.posterior["free"].mean(), again.posterior["free"].mean())


def of_classes(factor):
    def inner(y):
        means = numpyro.sample("means", Normal(0, 3).expand([2]).to_event(1))
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", numpyro.distributions.Bernoulli(0.3))
            numpyro.sample("y", Normal(factor * means[z], 1), obs=y)

    return inner


def test_a_model_whose_classes_are_summed_out_compiles_nothing_again():
    pytest.importorskip("funsor", reason="needs funsor: pip install funsor")
    settings = {"key": jax.random.key(0), "num_starts": 2, "richer": False}
    first = vi.auto(vi.from_numpyro(of_classes(1.0), Y), **settings)
    before = compiled()
    again = vi.auto(vi.from_numpyro(of_classes(1.0), Y.copy()), **settings)
    assert names_since(before) == []
    np.testing.assert_array_equal(first.posterior["free"].mean(), again.posterior["free"].mean())


@pytest.mark.parametrize(
    "other",
    [
        lambda: vi.from_numpyro(story, Y + 1e-12 * np.arange(8) + 1e-6),
        lambda: vi.from_numpyro(story, Y, scale=2.0),
        lambda: vi.from_numpyro(story, Y[:7]),
    ],
    ids=["data", "a deterministic site", "fewer data"],
)
def test_models_that_differ_are_two(other):
    assert other() is not vi.from_numpyro(story, Y)


def test_what_a_function_reads_counts(monkeypatch):
    before = vi.from_numpyro(of_a_global, Y)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    changed = vi.from_numpyro(of_a_global, Y)
    assert changed is not before
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    assert vi.from_numpyro(of_a_global, Y) is before
    shared = jnp.arange(8.0)
    model = lambda: numpyro.sample(
        "y", Normal(numpyro.sample("mean", Normal(0, 1)) * shared, 1), obs=Y
    )
    first = vi.from_numpyro(model)
    shared = 2 * shared
    assert vi.from_numpyro(model) is not first


def test_two_ways_of_writing_a_density_are_two():
    of_levels, of_none = vi.from_numpyro(centred, Y), vi.from_numpyro(by_factor, Y)
    assert of_levels is not of_none


def test_a_derivative_of_ones_own_counts():
    @jax.custom_jvp
    def square(x):
        return x**2

    square.defjvp(lambda primals, tangents: (square(*primals), 2 * primals[0] * tangents[0]))

    @jax.custom_jvp
    def other(x):
        return x**2

    other.defjvp(lambda primals, tangents: (other(*primals), 3 * primals[0] * tangents[0]))
    of = lambda function: lambda: numpyro.factor("f", -function(numpyro.sample("x", Normal(0, 1))))
    assert vi.from_numpyro(of(square)) is not vi.from_numpyro(of(other))


def test_calls_into_python_are_made_anew():
    def called():
        x = numpyro.sample("x", Normal(0, 1))
        seen = jax.pure_callback(lambda: np.float32(1.0), jax.ShapeDtypeStruct((), jnp.float32))
        numpyro.factor("f", -seen * x**2)

    assert vi.from_numpyro(called) is not vi.from_numpyro(called)


def test_models_are_not_kept_for_ever():
    alive = weakref.ref(vi.from_numpyro(story, Y + 2.0))
    vi.from_numpyro(story, Y + 3.0)
    gc.collect()
    assert alive() is None


def test_a_density_without_derivatives_is_a_model_all_the_same():
    def counted():
        x = numpyro.sample("x", Normal(0, 1))
        numpyro.factor(
            "f", jax.lax.while_loop(lambda s: s < 3, lambda s: s + 1 + 0 * jnp.abs(x), jnp.abs(x))
        )

    assert vi.from_numpyro(counted).log_density.variables.dim == 1
