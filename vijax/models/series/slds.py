"""Switching linear dynamical systems: noisy observations of a hidden path whose linear law of
motion switches (Ghahramani and Hinton 2000; Fox, Sudderth, Jordan and Willsky 2011).

    initial ~ Dirichlet,  rows of transition ~ Dirichlet,
    z_1 ~ initial,  z_t | z_{t-1} ~ transition[z_{t-1}],
    x_1q ~ N(m_q, 1 / p_q),   x_t - a x_{t-1} | z_t = k ~ N(A_k x_{t-1} + B_k u_t + b_k, L_k^-1),
    y_td ~ N(c_d' x_t + e_d, 1 / r_d)

with u_t inputs, a the persistence, (A_k, B_k, b_k) and L_k matrix-normal-Wishart, the other pairs
normal-gamma. A sequence is a group. q is structured mean field, q(z) q(x), with both chains joint.
q(x) is a Gaussian chain of the expected dynamics, in which each state is weighted by its
probability at the step; it is computed by the Kalman filter and smoother in information form. q(z)
is a Markov chain of the expected log densities of the states under the pairs (x_{t-1}, x_t); it is
computed by forward-backward. The two are updated in turn, so that the bound never falls.

The likelihood determines x up to an invertible affine map only; compare what does not depend on it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import Count, NotNegative, Positive, Size, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import expecting
from vijax.contract.model import Model
from vijax.contract.queries import Generative, Values
from vijax.contract.room import limit_sizes
from vijax.families import (
    Dirichlet,
    LinearGaussianChainStats,
    MarkovChain,
    MarkovChainStats,
    NormalGamma,
    Product,
)
from vijax.families.chain import chains
from vijax.inference.estep import mean_field
from vijax.models.energies.energy_model import ready_model
from vijax.models.series import sequences
from vijax.models.series.motion_start import labels_by_motion
from vijax.models.series.state_space import (
    expected_of_observations,
    first_terms,
    observation_terms,
    path_template,
    regression_prior,
    window_scores,
)
from vijax.models.series.switching_dynamics import (
    Form,
    Motion,
    check_columns,
    dynamics_prior,
    expected_step_densities,
)
from vijax.tree import to_device
from vijax.xla.by_value import cache_by_value


@cache_by_value
@limit_sizes
@check_arguments
def slds(
    dim: Size,
    num_states: Size,
    latent_dim: Size,
    num_inputs: Count = 0,
    initial_concentration: Positive = 1.0,
    transition_concentration: Positive = 1.0,
    stickiness: NotNegative = 0.0,
    persistence: float = 1.0,
    strength: Positive = 0.01,
    degrees: Positive | None = None,
    variance: Positive = 0.1,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
    init: starts.Init | None = None,
    estep: Any = None,
) -> Model:
    """A switching linear dynamical system.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns of the observations.
      num_states: K, number of laws of motion.
      latent_dim: Q, dimension of the hidden path.
      num_inputs: M, number of last columns that are inputs: the motion depends on them, and they
          are not modelled.
      initial_concentration: concentration of the Dirichlet prior of the first state.
      transition_concentration: concentration of the Dirichlet priors of the next state given each.
      stickiness: number added to the concentration of staying in a state.
      persistence: a, the share of the last step that a step keeps; coefficients of prior mean 0 are
          added to it.
      strength: prior precision of all coefficients and means, in units of their noise precision,
        counted in observations.
      degrees: degrees of freedom of the Wishart prior of the precisions of the motion, above Q - 1;
          unset: Q + 2.
      variance: inverse of the prior mean of the precisions of the motion, whose path begins at
          variance about one.
      shape: shape of the gamma prior of the noise precisions of observations and first steps.
      rate: rate of the same prior; data of another scale than one want another rate.
      init: the start; by default the path of leading principal components, smoothed, and states by
        clusters of windows of like motion.
      estep: the E-step, which updates the two chains in turn; by default
          `vijax.estep.mean_field(20, 1e-3)`.

    Returns:
      A `Model` with globals `initial`, `transition`, `start` (NormalGamma, batch (Q,)), `dynamics`
      (MatrixNormalWishart, batch (K,); rows of the coefficients are the path one step ago, the
      inputs, and a constant) and `observation` (MultivariateNormalGamma over ((c_d, e_d), r_d),
      batch (D,)), and locals `x` and `z`. Data: a pair (y, mask) of shapes (N, T, D + M) and (N,
      T), the mask true on the steps that exist, which come first (`vijax.models.pad`). NaN marks a
      missing observation. `fit.locals(data, key=key)` are the laws of the paths: `["z"].probs`
      smoothed probabilities of the states, `["x"].mean()` smoothed paths. Draws have the inputs of
      the data; forecasts keep those of the last step.

    Raises:
      ValueError: an argument outside its limits; later, data unlike the above.

    >>> import vijax as vi
    >>> turn = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    >>> x, rng = [np.array([1.0, 0.0])], np.random.default_rng(0)
    >>> for t in range(1, 200):  # a circle, to the left and to the right
    ...     x.append(turn(0.3 if t // 50 % 2 else -0.3) @ x[-1])
    >>> y = np.array(x) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(200, 5))
    >>> data = vi.models.pad([y])
    >>> model = slds(5, num_states=2, latent_dim=2, stickiness=5.0, variance=1e-3, rate=0.01)
    >>> fit = vi.fit(vi.cavi(model), data, num_steps=30, key=jax.random.key(0))
    >>> z = np.asarray(fit.locals(data, key=jax.random.key(1))["z"].mode()[0])
    >>> print(np.mean((z[:-1] == z[1:])[[20, 70, 120, 170]]), bool(z[25] != z[75]), bool(z[25] == z[125]))
    1.0 True True
    """
    form = Form(latent_dim, 1, num_inputs, persistence)

    def energy(
        stats: Any, group: tuple[Float[Array, "T C"], Bool[Array, " T"]]
    ) -> Float[Array, ""]:
        return chain_terms(stats) + path_terms(form, dim, stats, group)

    plain_model = ready_model(
        globals={
            **chain_priors(num_states, initial_concentration, transition_concentration, stickiness),
            **motion_priors(form, num_states, strength, degrees, variance, shape, rate),
            "observation": regression_prior(dim, form.dim + 1, strength, shape, rate),
        },
        locals=lambda group: {
            **path_template(latent_dim, group),
            "z": states_template(num_states, True, group),
        },
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 3 * (dim + num_inputs)).reshape(3, -1), np.ones(3, bool)),
        init=init or start_of_paths(form, dim, num_states),
        estep=estep or mean_field(20, 1e-3),
        check_data=lambda data: check_observations(dim, num_inputs, data),
        generative=slds_generative(form, dim),
    )
    return expecting(plain_model, expected_of_observations(dim, strength, shape, rate))


def motion_priors(
    form: Form,
    num_states: int,
    strength: float,
    degrees: float | None,
    variance: float,
    shape: float,
    rate: float,
) -> dict[str, Any]:
    """Priors of the first step and the dynamics."""
    return {
        "start": NormalGamma.from_parameters(np.zeros(form.dim), strength, shape, rate),
        "dynamics": dynamics_prior(form, num_states, strength, degrees, variance),
    }


def states_template(num_states: int, shared: bool, group: tuple[Array, Array]) -> MarkovChain:
    """The chain of equally likely paths; all steps share the transitions, or each step has its
    own."""
    y, mask = group
    dtype = jnp.result_type(float)
    k, steps = num_states, len(y)
    shapes = (k,), (k, k) if shared else (steps - 1, k, k), (steps, k)
    zeros = (to_device(np.zeros(shape, dtype)) for shape in shapes)
    return MarkovChain(*zeros).with_context(jnp.asarray(mask, bool))


def path_terms(form: Form, dim: int, stats: Any, group: tuple[Array, Array]) -> Float[Array, ""]:
    """log p(y, x | z, globals) of one sequence: its first step, moves and observations."""
    y, mask = group
    inputs = jnp.where(mask[:, None], y[:, dim:], 0.0)
    motion = motion_terms(form, stats, inputs, mask)
    return motion + observation_terms(stats["observation"], stats["x"], y[:, :dim], mask)


def motion_terms(
    form: Form, stats: Any, inputs: Float[Array, "T M"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """log p(x | z, globals) of one sequence: its first step, and its moves by state."""
    x = stats["x"]
    first = first_terms(stats["start"], x.value[0], jnp.diagonal(x.outer[0]))
    moves = expected_step_densities(form, stats["dynamics"], x, inputs)
    moves = jnp.vdot(stats["z"].unary[1:], jnp.where(mask[1:, None], moves, 0.0))
    return jnp.where(mask[0], first, 0.0) + moves


def chain_terms(stats: Any) -> Float[Array, ""]:
    """log p(z | globals) of one sequence."""
    z = stats["z"]
    return z.initial @ stats["initial"].log + jnp.vdot(z.transition, stats["transition"].log)


def chain_priors(
    num_states: int, initial: float, transition: float, stickiness: float
) -> dict[str, Dirichlet]:
    """Priors of the first state and of the next state given each, from their concentrations."""
    rows = transition * np.ones((num_states, num_states)) + stickiness * np.eye(num_states)
    return {
        "initial": Dirichlet.from_concentration(initial * np.ones(num_states)),
        "transition": Dirichlet.from_concentration(rows),
    }


@cache_by_value
def start_of_paths(form: Form, dim: int, num_states: int, variance: float = 0.05) -> starts.Init:
    """The start: the first path of `vijax.models.linear_gaussian_state_space`, from leading
    principal components, known up to `variance`; and states by clusters of windows of like motion
    on this path, smoothed."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y, mask = context.data().data
        y = jnp.asarray(y, jnp.result_type(float))
        mask = jnp.asarray(mask, bool) & context.counts()[:, None]
        path = smooth(window_scores(y[..., :dim], mask, form.dim), mask)
        return implied_by_path(form, num_states, variance, key, context, path, y[..., dim:], mask)

    return start


def implied_by_path(
    form: Form,
    num_states: int,
    variance: float,
    key: PRNGKeyArray,
    context: starts.Context,
    path: Float[Array, "N T Q"],
    inputs: Float[Array, "N T M"],
    mask: Bool[Array, "N T"],
) -> Product:
    """The globals implied by a path that is known up to `variance`, and by its states of like
    motion."""
    labels = labels_by_motion(form, key, jnp.concatenate([path, inputs], -1), mask, num_states)
    chain_stats = lambda z, m: chains.chain_stats(z, num_states, True, m, path.dtype)
    states = jax.vmap(chain_stats)(labels, mask)
    chain: Any = path_template(form.dim, (path[0], mask[0]))["x"]
    path_stats = lambda x, m: chain.with_context(m).stats(x)
    exact: LinearGaussianChainStats = jax.vmap(path_stats)(path, mask)
    covariance = variance * jnp.eye(form.dim, dtype=path.dtype)[None, None]
    spread = jnp.where(mask[..., None, None], covariance, 0.0)
    # The errors of neighbouring steps are strongly correlated: independent ones would look like
    # noise of the motion.
    are_known = mask[:, 1:, None, None] & mask[:, :-1, None, None]
    cross = exact.cross + jnp.where(are_known, 0.9 * spread[:, 1:], 0.0)
    x = exact._replace(outer=exact.outer + spread, cross=cross)
    return context.conditional({"x": x, "z": MarkovChainStats(*states)})


def smooth(path: Float[Array, "N T Q"], mask: Bool[Array, "N T"]) -> Float[Array, "N T Q"]:
    """Means of five neighbouring steps with binomial weights."""
    weights = (1.0, 4.0, 6.0, 4.0, 1.0)
    steps = path.shape[1]
    wide = lambda a: jnp.pad(jnp.where(mask[..., None], a, 0.0), ((0, 0), (2, 2), (0, 0)))
    total = lambda a: sum(w * wide(a)[:, i : i + steps] for i, w in enumerate(weights))
    mean = total(path) / jnp.maximum(total(jnp.ones_like(path)), 1.0)
    return jnp.where(mask[..., None], mean, 0.0)


def check_observations(dim: int, num_inputs: int, data: PyTree) -> None:
    """Raises ValueError unless data are a pair (y, mask) with these columns."""
    check_columns(data, dim, num_inputs)


def observed_draws(
    dim: int,
    values: Values,
    path: Float[Array, "N T Q"],
    layout: sequences.Steps,
    key: PRNGKeyArray,
) -> Float[Array, "N T C"]:
    """Observations of paths, and the inputs as they are."""
    observation = values["observation"]
    mean = path @ observation.coefficients[:, :-1].T + observation.coefficients[:, -1][None, None]
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    y = mean + noise / jnp.sqrt(observation.precision)[None, None]
    return sequences.mask_padding(jnp.concatenate([y, layout.y[..., dim:]], -1), layout)


def first_step(values: Values, key: PRNGKeyArray) -> Float[Array, " Q"]:
    """A draw of x_1."""
    law = values["start"]
    noise = jax.random.normal(key, law.mean.shape, law.mean.dtype)
    return law.mean + noise / jnp.sqrt(law.precision)


def slds_generative(form: Form, dim: int) -> Generative:
    """Draws of a switching linear dynamical system."""

    def draw_path(
        values: Values, z: Array, inputs: Array, before: Array, is_first: Any, key: PRNGKeyArray
    ) -> Float[Array, "T Q"]:
        """A path after the step `before`; from the law of the first step if `is_first`."""
        key_first, key = jax.random.split(key)
        fixed = jnp.full((len(z), form.dim), jnp.nan, before.dtype)
        fixed = fixed.at[0].set(jnp.where(is_first, first_step(values, key_first), jnp.nan))
        return Motion.from_values(form, values["dynamics"]).follow(
            z, inputs, before[None], fixed, key
        )

    def local(
        hyper: Any, values: Values, layout: sequences.Steps, key: PRNGKeyArray
    ) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        key_z, key_x = jax.random.split(key)
        draw_states = lambda key: sequences.path(
            values["initial"], values["transition"], num_steps, key
        )
        z = jax.vmap(draw_states)(jax.random.split(key_z, size))
        before = jnp.zeros((size, form.dim), layout.y.dtype)
        follow = lambda z, inputs, before, key: draw_path(values, z, inputs, before, True, key)
        return {
            "z": z,
            "x": jax.vmap(follow)(z, layout.y[..., dim:], before, jax.random.split(key_x, size)),
        }

    def data(
        hyper: Any, values: Values, local: Values, layout: sequences.Steps, key: PRNGKeyArray
    ) -> Array:
        return observed_draws(dim, values, local["x"], layout, key)

    def ahead(
        hyper: Any,
        values: Values,
        local: Values,
        layout: sequences.Steps,
        num_steps: int,
        key: PRNGKeyArray,
    ) -> tuple[Values, sequences.Steps]:
        key_z, key_x = jax.random.split(key)
        next_ = sequences.next_steps(layout, num_steps)
        laws = values["initial"], values["transition"]
        z = sequences.continue_paths(local["z"], layout.mask, *laws, num_steps, key_z)
        ends = sequences.last_steps(local["x"], layout.mask), ~layout.mask.any(axis=1)
        follow = lambda *of: draw_path(values, *of)
        x = jax.vmap(follow)(z, next_.y[..., dim:], *ends, jax.random.split(key_x, len(z)))
        return {"z": z, "x": x}, next_

    like = sequences.steps_like(
        lambda data: check_observations(dim, form.num_inputs, data), np.zeros(dim + form.num_inputs)
    )
    return Generative(like, data, local, sequences.observations, ahead=ahead)
