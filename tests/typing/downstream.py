"""A program of a user's, checked strictly."""

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi


def cluster(rows: np.ndarray, number: int) -> np.ndarray:
    model = vi.models.mixture(vi.models.emission.diagonal_gaussian(number, dim=rows.shape[1]))
    fit = vi.fit(vi.cavi(model), rows, num_steps=20, key=jax.random.key(0))
    low, high = fit.posterior["weights"].interval(0.9)
    print(fit.outcome, low, high)
    return np.asarray(fit.locals(rows, key=jax.random.key(1))["z"].probs)


def own(y: jax.Array) -> float:
    def bound(
        s: dict[str, vi.families.BetaStats], y: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, None]:
        return y * s["bias"].log + (1 - y) * s["bias"].log1m, None

    coin = vi.model(prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}), local_elbo=bound)
    alg: vi.Algorithm = vi.svi(coin, num_groups=100)
    state = alg.init(jax.random.key(0))
    state, info = alg.step(jax.random.key(1), state, y)
    return float(info.elbo)


def density() -> str:
    target = vi.density({"x": vi.free(3)}, lambda v: -jnp.sum(v["x"] ** 2))
    return vi.auto(target, key=jax.random.key(0)).verdict
