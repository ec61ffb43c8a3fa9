"""Starts of switching dynamics: windows of steps in clusters of like motion.

A window's regression of its changes on (x_{t-1}, ..., x_{t-P}, u_t, 1) needs only its sums of
products, so that k-means of regressions costs one pass over the data. The distance of a window from
coefficients G is its sum of squared errors at G, the centre of a cluster is the regression of its
windows (Spath 1979), and seeds are chosen as in k-means++. Clusters of positions do not serve: two
motions may be at one place."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.models.series.switching_dynamics import Form, known_steps, step_changes, step_features
from vijax.spreads import spread_or_one

RIDGE = 1e-3
"""Prior precision of the regressions, in observations."""


class Windows(NamedTuple):
    """Sums over the steps of each window."""

    features: Float[Array, "W J J"]  # f f'
    products: Float[Array, "W J D"]  # f change'
    squares: Float[Array, " W"]  # change' change
    steps: Float[Array, " W"]

    @classmethod
    def from_sequences(
        cls, form: Form, y: Float[Array, "N T C"], mask: Bool[Array, "N T"], length: int
    ) -> Windows:
        """The windows of all sequences, sequence by sequence; `T` is a multiple of their length."""
        is_known = known_steps(form, y, mask)
        y = jnp.where(jnp.isfinite(y) & mask[..., None], y, 0.0)
        x, inputs = y[..., : form.dim], y[..., form.dim :]
        f = jax.vmap(lambda x, u: step_features(form, x, u))(x, inputs)
        cut = lambda a: jnp.where(is_known[..., None], a, 0.0).reshape(-1, length, a.shape[-1])
        f, x = cut(f), cut(jax.vmap(lambda x: step_changes(form, x))(x))
        product = lambda a, b: jnp.einsum("wti,wtj->wij", a, b, precision="highest")
        count = jnp.sum(is_known.reshape(-1, length), 1, dtype=x.dtype)
        return cls(product(f, f), product(f, x), jnp.sum(x**2, (1, 2)), count)

    def regressions(self, form: Form) -> Float[Array, "W J D"]:
        """The coefficients of each window."""
        eye = jnp.eye(form.num_features, dtype=self.squares.dtype)
        return jnp.linalg.solve(self.features + RIDGE * eye[None], self.products)

    def errors(self, coefficients: Float[Array, "K J D"]) -> Float[Array, "W K"]:
        """Sums of squared errors of each window at each set of coefficients."""
        product = lambda subscripts, *of: jnp.einsum(subscripts, *of, precision="highest")
        outer = product("kid,kjd->kij", coefficients, coefficients)
        of_mean = product("wij,kij->wk", self.features, outer)
        return (
            self.squares[:, None]
            - 2 * product("wjd,kjd->wk", self.products, coefficients)
            + of_mean
        )


def labels_by_motion(
    form: Form,
    key: PRNGKeyArray,
    y: Float[Array, "N T C"],
    mask: Bool[Array, "N T"],
    num_states: int,
    num_iters: int = 30,
) -> Int[Array, "N T"]:
    """Labels of steps, by the clusters of their windows. Windows have twice as many steps as a
    regression has coefficients, and begin at a random place."""
    key_shift, key_seeds = jax.random.split(key)
    length, steps = max(2 * form.num_features, 8), y.shape[1]
    num_padded = -(-steps // length) * length + length
    shift = jax.random.randint(key_shift, (), 0, length)
    widen = lambda a: jnp.pad(a, ((0, 0), (length, num_padded - steps), *[(0, 0)] * (a.ndim - 2)))
    shift_steps = lambda a: jax.lax.dynamic_slice_in_dim(widen(a), shift, num_padded, 1)
    windows = Windows.from_sequences(
        form, shift_steps(_standardise(form, y, mask)), shift_steps(mask), length
    )
    labels = jnp.repeat(_clusters(form, key_seeds, windows, num_states, num_iters), length).reshape(
        len(y), num_padded
    )
    return jax.lax.dynamic_slice_in_dim(labels, length - shift, steps, 1)


def _clusters(
    form: Form, key: PRNGKeyArray, windows: Windows, num_states: int, num_iters: int
) -> Int[Array, " W"]:
    regressions = windows.regressions(form)
    least_errors = jax.vmap(_error)(windows, regressions)
    full = jnp.where(windows.steps > 0, 1.0, 0.0)

    def seed(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        centres, nearest = carry
        chance = jnp.where(k == 0, full, jnp.maximum(nearest, 0.0) * full)
        logits = jnp.log(jnp.where(jnp.sum(chance) > 0, chance, full + (jnp.sum(full) == 0)))
        centre = regressions[jax.random.categorical(jax.random.fold_in(key, k), logits)]
        excess = windows.errors(centre[None])[:, 0] - least_errors
        return centres.at[k].set(centre), jnp.minimum(nearest, excess)

    blank = jnp.zeros((num_states, *regressions.shape[1:]), regressions.dtype)
    centres, _ = jax.lax.fori_loop(
        0, num_states, seed, (blank, jnp.full_like(least_errors, jnp.inf))
    )

    def lloyd(_: Array, centres: Array) -> Array:
        memberships = jax.nn.one_hot(
            jnp.argmin(windows.errors(centres), 1), num_states, dtype=regressions.dtype
        )
        pooled: Any = jax.tree.map(
            lambda a: jnp.tensordot(memberships, a, (0, 0), precision="highest"), windows
        )
        return jnp.where(pooled.steps[:, None, None] > 0, pooled.regressions(form), centres)

    return jnp.argmin(windows.errors(jax.lax.fori_loop(0, num_iters, lloyd, centres)), 1)


def _error(window: Windows, coefficients: Float[Array, "J D"]) -> Float[Array, ""]:
    single = jax.tree.map(lambda a: a[None], window)
    return single.errors(coefficients[None])[0, 0]


def _standardise(
    form: Form, y: Float[Array, "N T C"], mask: Bool[Array, "N T"]
) -> Float[Array, "N T C"]:
    """The columns with mean 0 and deviation 1; NaN stays."""
    is_number = mask[..., None] & jnp.isfinite(y)
    count = jnp.maximum(jnp.sum(is_number, (0, 1), dtype=y.dtype), 1)
    mean = jnp.sum(jnp.where(is_number, y, 0.0), (0, 1)) / count
    spread = jnp.sqrt(jnp.sum(jnp.where(is_number, y - mean[None, None], 0.0) ** 2, (0, 1)) / count)
    return (y - mean[None, None]) / spread_or_one(spread, mean)[None, None]
