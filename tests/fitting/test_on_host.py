"""A fit is called on the host, and its steps anywhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.grad])
def test_a_fit_within_a_program_names_the_steps(transform):
    """Traced by its data, or by the program that it is called in; steps themselves are traced."""
    coin = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    alg = vi.cavi(coin)
    fits = [
        ("vijax.fit", lambda y: vi.fit(alg, y, key=jax.random.key(0), num_steps=2).elbo),
        ("vijax.auto", lambda y: vi.auto(coin, y, key=jax.random.key(0)).elbo),
        ("vijax.grow", lambda y: vi.grow(lambda k: coin, y, key=jax.random.key(0)).elbo),
    ]
    y = jnp.ones((3, 4)) if transform is jax.vmap else jnp.ones(4)
    for name, fit in fits:
        with pytest.raises(
            ValueError, match=f"{name}: expected to be called with numbers, .*alg.step"
        ):
            transform(fit)(y)
    with pytest.raises(ValueError, match=r"vijax\.fit: expected to be called with numbers"):
        jax.jit(lambda x: x + fits[0][1](np.ones(4)))(1.0)
    batch = vi.Minibatch(jnp.array([1.0, 1.0, 0.0, 1.0]), 4.0)
    keys = jax.random.split(jax.random.key(0), 3)
    state, _ = jax.vmap(lambda key: alg.step(key, alg.init(key, batch), batch))(keys)
    np.testing.assert_allclose(state.posterior["bias"].mean(), np.full(3, 4 / 6), rtol=1e-5)
