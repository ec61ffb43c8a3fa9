"""How a pass over arrays is cut into batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.data.loader import ArrayLoader

KEY = jax.random.key(0)
Y = np.random.default_rng(0).normal(2.0, 3.0, 1605).astype(np.float32)


def normal():
    """y ~ N(mean, 1 / precision), both unknown."""

    def bound(s, y, key):
        c = s["c"]
        square = c.precision_times_square - 2 * c.precision_times_mean * y + c.precision * y**2
        return 0.5 * (c.log_precision - square - jnp.log(2 * jnp.pi)), None

    return vi.model(
        prior=vi.Product({"c": vi.NormalGamma.from_parameters(0.0, 0.1, 2.0, 1.0)}),
        local_elbo=bound,
    )


MODEL = normal()


@pytest.mark.parametrize(
    ("num", "most", "sizes"), [(7, 3, [3, 2, 2]), (101, 100, [51, 50]), (6, 3, [3, 3]), (3, 3, [3])]
)
def test_a_pass_is_cut_evenly_and_visits_every_group_once(num, most, sizes):
    loader = ArrayLoader(np.arange(num), most, seed=0)
    for epoch in range(3):
        first = epoch * len(sizes)
        batches = list(loader.batches(first, first + len(sizes)))
        assert loader.steps_per_epoch == len(sizes)
        assert [int(b.weights.sum()) for b in batches] == sizes
        assert {b.data.shape for b in batches} == {(sizes[0],)}  # one program serves all
        np.testing.assert_array_equal(
            np.sort(np.concatenate([b.data[b.weights > 0] for b in batches])), np.arange(num)
        )


def fitted(**more):
    alg = vi.svi(MODEL, step_size=vi.step_size.robbins_monro(offset=1.0, kappa=1.0))
    return vi.fit(alg, Y, batch_size=100, key=KEY, **more)


def test_batches_that_do_not_divide_the_data_spoil_no_fit():
    """The gap of the ELBO is KL(q || posterior), for one conjugate global. With a last batch of 5,
    which counted like those of 100, it was .05 nats (under the default's steps .6)."""
    exact = vi.fit(vi.cavi(MODEL), Y, num_steps=3, key=KEY).posterior["c"]
    assert float(fitted(num_epochs=12).posterior["c"].kl(exact)) < 1e-3


def test_a_run_stopped_within_an_uneven_pass_goes_on_bit_for_bit():
    whole, half = fitted(num_steps=23), fitted(num_steps=7)
    on = fitted(num_steps=23, state=half.state)
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(on.state), strict=True):
        np.testing.assert_array_equal(a, b)
