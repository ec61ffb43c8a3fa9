"""`Product` beyond the laws: the mapping, its sums over axes, and delegation to the factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.naming import naming
from vijax.families import Categorical, Normal, Product


def example(batch_ndim: int = 0) -> Product:
    factors = {
        "weights": Normal.from_mean_variance([2.0, 3.0], [1.0, 0.5]),
        "topics": Categorical.from_logits([[1.0, 2.0, 0.5], [3.0, 1.0, 1.0]]),
    }
    return Product(factors, batch_ndim)


def same(a, b) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), a, b)


def test_it_is_a_mapping_in_alphabetical_order() -> None:
    q = example()
    assert list(q) == list(q.keys()) == ["topics", "weights"]
    assert len(q) == 2
    assert "topics" in q
    assert "topic" not in q
    assert [type(factor) for factor in q.values()] == [Categorical, Normal]
    assert dict(q.items())["weights"] is q["weights"]
    assert jax.tree.structure(q) == jax.tree.structure(
        Product({"topics": q["topics"], "weights": q["weights"]})
    )


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(KeyError, match=naming("'topic'", "'topics'")):
        example()["topic"]
    with pytest.raises(ValueError, match=naming("stats:", "'topics'", "'weights'")):
        example().dot({"topics": example()["topics"].expected_stats()})


@pytest.mark.parametrize(
    ("factors", "batch_ndim", "message"),
    [
        ({}, 0, "factors: expected a mapping"),
        ([Normal.from_mean_variance(0.0, 1.0)], 0, "factors: expected a mapping"),
        ({"x": 1.0}, 0, r"factors\['x'\]: expected a family"),
        ({1: Normal.from_mean_variance(0.0, 1.0)}, 0, "names that are strings"),
        ({"x": Normal.from_mean_variance(0.0, 1.0)}, 1, "agree in their first 1 axes"),
        (
            {
                "x": Normal.from_mean_variance([0.0], 1.0),
                "y": Normal.from_mean_variance([0.0, 1.0], 1.0),
            },
            1,
            "agree in their first 1 axes",
        ),
    ],
)
def test_constructor_errors(factors, batch_ndim, message) -> None:
    with pytest.raises(ValueError, match=message):
        Product(factors, batch_ndim)


@pytest.mark.parametrize("batch_ndim", [0, 1])
def test_scalars_are_sums_over_factors_and_over_axes_that_are_not_shared(batch_ndim: int) -> None:
    q = example(batch_ndim)
    p = jax.tree.map(lambda leaf: 1.5 * leaf, q)
    x = q.sample(jax.random.key(0), (4,))
    reduce = (lambda a: jnp.sum(a, -1)) if batch_ndim == 0 else (lambda a: a)
    for total, part in [
        (lambda q: q.log_normalizer(), lambda n: q[n].log_normalizer()),
        (lambda q: q.entropy(), lambda n: q[n].entropy()),
        (lambda q: q.kl(p), lambda n: q[n].kl(p[n])),
        (lambda q: q.log_prob(x), lambda n: q[n].log_prob(x[n])),
        (lambda q: q.dot(q.stats(x)), lambda n: q[n].dot(q[n].stats(x[n]))),
    ]:
        whole, parts = jax.jit(
            lambda total=total, part=part: (total(q), sum(reduce(part(name)) for name in q))
        )()
        np.testing.assert_allclose(whole, parts, rtol=1e-5)
    assert jax.eval_shape(q.log_prob, x).shape == (4, *q.batch_shape)
    assert q.batch_shape == (2,)[:batch_ndim]


def test_draws_and_v_are_those_of_the_factors() -> None:
    key = jax.random.key(1)
    q = Product(
        {
            "a": Normal.from_mean_variance([2.0, 3.0], [1.0, 0.5]),
            "b": Normal.from_mean_variance(0.0, 1.0),
        }
    )
    keys = dict(zip(q, jax.random.split(key, 2), strict=True))
    t, v_product = q.pathwise_sample(key)
    eta = jax.tree.map(jnp.cos, q.expected_stats())
    for name, factor in q.items():
        expected, v = factor.pathwise_sample(keys[name])
        same(t[name], expected)
        same(v_product(eta)[name], v(eta[name]))
    assert jax.tree.map(jnp.shape, q.sample(key, (3,))) == {"a": (3, 2), "b": (3,)}


def test_gradients_in_the_statistics_are_natural_parameters() -> None:
    q = example()
    eta = jax.grad(lambda stats: q.dot(stats))(q.expected_stats())
    same(q.with_naturals(eta), q)
    same(q.as_stats(q), eta)
    assert q.as_stats(q)["weights"]._fields == ("value", "square")


def test_one_bad_factor_leaves_the_rest_valid() -> None:
    q = example()
    bad = Product({**q, "topics": Categorical(q["topics"].logits.at[0, 1].set(jnp.nan))})
    ok = bad.in_domain()
    assert all(np.all(mask) for mask in jax.tree.leaves(ok["weights"]))
    assert not np.any(ok["topics"].logits[0])
    assert np.all(ok["topics"].logits[1])


def test_it_passes_through_jit_scan_vmap_and_key_paths() -> None:
    q = example()
    same(jax.jit(lambda q: q)(q), q)
    carried, _ = jax.lax.scan(lambda q, _: (jax.tree.map(lambda x: 2 * x, q), None), q, length=2)
    same(carried, jax.tree.map(lambda x: 4 * x, q))
    restarts = jax.tree.map(lambda x: jnp.stack([x, 2 * x, 3 * x]), q)
    np.testing.assert_allclose(jax.vmap(lambda q: q.entropy())(restarts)[0], q.entropy(), rtol=1e-6)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(q)[0]]
    assert paths == [
        "['topics'].logits",
        "['weights'].precision_times_mean",
        "['weights'].negative_half_precision",
    ]


def test_a_discrete_factor_refuses_pathwise_draws() -> None:
    q = Product({"z": Categorical.from_probs([0.5, 0.5])})
    with pytest.raises(NotImplementedError, match="Categorical is discrete"):
        q.pathwise_sample(jax.random.key(0))
