"""Autoregressive hidden Markov models: a linear law of motion for each state (Hamilton 1989; Fox,
Sudderth, Jordan and Willsky 2011).

    initial ~ Dirichlet,  rows of transition ~ Dirichlet,
    z_1 ~ initial,  z_t | z_{t-1} ~ transition[z_{t-1}],
    y_t - a y_{t-1} | z_t = k ~ N(A_k1 y_{t-1} + ... + A_kP y_{t-P} + B_k u_t + b_k, L_k^-1)

with a number a, the persistence. The coefficients G_k = (A_k1, ..., A_kP, B_k, b_k)' and the
precision L_k have a matrix-normal-Wishart prior. A sequence is a group; its path of states is one
joint local variable. q(z) is the exact posterior given the dynamics, by forward-backward, as in
`vijax.models.hmm`.

The likelihood is conditional on the first P steps. A step with a missing entry restarts the
regression: it and the P steps after it add no term of the dynamics, while the chain of states runs
through them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import Count, NotNegative, Positive, Size, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import (
    STANDARDISE,
    PriorExpectation,
    expecting,
    place_scale_strain,
    steps,
)
from vijax.contract.model import Estimates, Model
from vijax.contract.queries import Generative, Values, is_sizes
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, MarkovChain, MarkovChainStats, Product
from vijax.families.chain import chains
from vijax.families.point import log_predictive
from vijax.models.energies.energy_model import ready_model
from vijax.models.series import sequences
from vijax.models.series.motion_start import labels_by_motion
from vijax.models.series.switching_dynamics import (
    Form,
    Motion,
    check_columns,
    dynamics_prior,
    known_steps,
    require_first_steps,
    require_known_runs,
    step_changes,
    step_densities,
    step_features,
)
from vijax.tree import to_device
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import once_jit
from vijax.xla.precision import enable_x64


@cache_by_value
@limit_sizes
@check_arguments
def arhmm(
    dim: Size,
    num_states: Size,
    num_lags: Count = 1,
    num_inputs: Count = 0,
    initial_concentration: Positive = 1.0,
    transition_concentration: Positive = 1.0,
    stickiness: NotNegative = 0.0,
    persistence: float = 1.0,
    strength: Positive = 0.01,
    degrees: Positive | None = None,
    variance: Positive = 1.0,
    init: starts.Init | None = None,
) -> Model:
    """An autoregressive hidden Markov model.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns that are modelled.
      num_states: K, number of states.
      num_lags: P, number of earlier steps that a step depends on. With 0 the model is a hidden
          Markov model of regressions on the inputs.
      num_inputs: M, number of last columns that are inputs: the motion depends on them, and they
          are not modelled.
      initial_concentration: concentration of the Dirichlet prior of the first state.
      transition_concentration: concentration of the Dirichlet priors of the next state given each.
      stickiness: number added to the concentration of staying in a state.
      persistence: a, the share of the last step that a step keeps; coefficients of prior mean 0 are
        added to it. With 1 they explain the change; with 0 the step itself, which loses float32
        digits for smooth paths.
      strength: prior precision of the coefficients in units of the noise precision, counted in
          observations.
      degrees: degrees of freedom of the Wishart prior of the noise precisions, above D - 1; unset:
          D + 2.
      variance: inverse of the prior mean of the noise precisions. Lower it for much smaller noise.
      init: the start; by default states by clusters of windows of like motion.

    Returns:
      A `Model` with globals `initial`, `transition` and `dynamics` (MatrixNormalWishart over (G_k,
      L_k), batch (K,)). The rows of G_k are the columns one step ago, two steps ago, ..., the
      inputs, and a constant. Data: a pair (y, mask) of shapes (N, T, D + M) and (N, T), the mask
      true on the steps that exist, which come first (`vijax.models.pad`); NaN marks missing
      observations. `fit.locals(data, key=key)["z"]` are the laws of the paths: `.mode()` Viterbi's,
      `.probs` smoothed probabilities. `fit.score` counts the steps that the dynamics explain. Draws
      have the first P steps of the data, and their inputs; forecasts keep the inputs of the last
      step.

    Raises:
      ValueError: an argument outside its limits; later, data unlike the above, or in which no
        sequence has P + 1 known steps in a row, and draws without P first steps.

    >>> import vijax as vi
    >>> turn = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    >>> y, rng = [np.array([1.0, 0.0])], np.random.default_rng(0)
    >>> for t in range(1, 200):  # a circle, to the left and to the right
    ...     y.append(turn(0.3 if t // 50 % 2 else -0.3) @ y[-1] + 0.01 * rng.normal(size=2))
    >>> data = vi.models.pad([np.array(y)])
    >>> model = arhmm(2, num_states=2, variance=1e-3)
    >>> fit = vi.fit(vi.cavi(model), data, num_steps=20, key=jax.random.key(0))
    >>> turns = fit.posterior["dynamics"].mean().coefficients[:, 0, 1]  # sin of the angle
    >>> print(jnp.sort(turns).round(1))
    [-0.3  0.3]
    """
    form = Form(dim, num_lags, num_inputs, persistence)
    rows = transition_concentration * np.ones((num_states, num_states))
    rows = rows + stickiness * np.eye(num_states)

    def energy(
        stats: Any, group: tuple[Float[Array, "T C"], Bool[Array, " T"]]
    ) -> Float[Array, ""]:
        z = stats["z"]
        chain = z.initial @ stats["initial"].log + jnp.vdot(z.transition, stats["transition"].log)
        return chain + jnp.vdot(z.unary, step_log_densities(form, stats["dynamics"], *group))

    def locals_(group: tuple[Array, Array]) -> dict[str, Any]:
        y, mask = group
        dtype, k = jnp.result_type(float), num_states
        zeros = (to_device(np.zeros(shape, dtype)) for shape in ((k,), (k, k), (len(y), k)))
        return {"z": MarkovChain(*zeros).with_context(jnp.asarray(mask, bool))}

    def check(data: PyTree) -> None:
        check_columns(data, dim, num_inputs)

    def enough(data: PyTree) -> None:
        require_known_runs(*check_columns(data, dim, num_inputs), dim, num_lags)

    plain_model = ready_model(
        globals={
            "initial": Dirichlet.from_concentration(initial_concentration * np.ones(num_states)),
            "transition": Dirichlet.from_concentration(rows),
            "dynamics": dynamics_prior(form, num_states, strength, degrees, variance),
        },
        locals=locals_,
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 3 * (dim + num_inputs)).reshape(3, -1), np.ones(3, bool)),
        init=init or states_by_motion(form, num_states),
        check_data=check,
        score=lambda hyper, q, data, key: score(form, q, data),
        generative=_generative(form),
    )
    plain_model = dataclasses.replace(
        plain_model, form=dataclasses.replace(plain_model.form, enough=enough)
    )
    return expecting(plain_model, _prior_expectation(dim, num_states, strength, degrees, variance))


def _prior_expectation(
    dim: int, num_states: int, strength: float, degrees: float | None, variance: float
) -> PriorExpectation:
    """The expectations that the prior of the dynamics has of the columns that move."""
    worth = dim + 2.0 if degrees is None else degrees
    strain = place_scale_strain(0.0, strength, worth * variance, worth, num_states)
    prior = f"about 0 and of deviation {np.sqrt(variance):.3g}"
    return PriorExpectation(lambda data: steps(data)[:, :dim], strain, prior, STANDARDISE)


def step_log_densities(
    form: Form, s: Any, y: Float[Array, "T C"], mask: Bool[Array, " T"]
) -> Float[Array, "T K"]:
    """The log density of each step in each state; zero on steps without P known steps before."""
    is_known = known_steps(form, y, mask)
    y = jnp.where(jnp.isfinite(y) & mask[:, None], y, 0.0)
    x, inputs = y[:, : form.dim], y[:, form.dim :]
    log_densities = step_densities(s, step_features(form, x, inputs), step_changes(form, x))
    return jnp.where(is_known[:, None], log_densities, 0.0)


@cache_by_value
def states_by_motion(form: Form, num_states: int) -> starts.Init:
    """The start: states by clusters of windows of like motion (`labels_by_motion`)."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y, mask = context.data().data
        y = jnp.asarray(y, jnp.result_type(float))
        mask = jnp.asarray(mask, bool) & context.counts()[:, None]
        labels = labels_by_motion(form, key, y, mask, num_states)
        chain_stats = lambda z, m: chains.chain_stats(z, num_states, True, m, y.dtype)
        stats = jax.vmap(chain_stats)(labels, mask)
        return context.conditional({"z": MarkovChainStats(*stats)})

    return start


# --- scores ---------------------------------------------------------------------------------------
def score(form: Form, q: Estimates, data: PyTree) -> Any:
    """Held-out log probability of sequences at the posterior mean of the chain, with predictive
    densities of the dynamics, which are Student's t (after EM and MAP at the point estimate): nats
    per explained step."""
    from vijax.evaluate import Score

    y, mask = check_columns(data, form.dim, form.num_inputs)
    require_known_runs(y, mask, form.dim, form.num_lags)
    with enable_x64(True):
        q = jax.tree.map(lambda x: np.asarray(x, np.float64), dict(q))
        y = np.asarray(y, np.float64)
        log_densities = np.asarray(_log_densities(form, q, y, mask))
        counts = np.asarray(known_steps(form, y, mask)).sum(axis=1)
        return Score.of(log_densities, counts, units=sequences.UNITS)


def _work(form: Form, q: Estimates, y: Array, mask: Array) -> int:
    return int(y.size * form.num_features**2 * jax.tree.leaves(q["transition"])[0].shape[-1])


@functools.partial(once_jit, work=_work, static_argnums=0)
def _log_densities(form: Form, q: Estimates, y: Array, mask: Array) -> Float[Array, " N"]:
    """log p(y_n) at the mean chain and the predictive densities, sequence by sequence."""
    initial, transition = (jnp.log(q[name].mean()) for name in ("initial", "transition"))

    def log_density(y: Array, mask: Array) -> Float[Array, ""]:
        is_known = known_steps(form, y, mask)
        filled = jnp.where(jnp.isfinite(y) & mask[:, None], y, 0.0)
        x, inputs = filled[:, : form.dim], filled[:, form.dim :]
        density_of_step = lambda s, step: step_densities(s, *(part[None] for part in step))[0]
        steps = step_features(form, x, inputs), step_changes(form, x)
        fit = lambda f, change: log_predictive(density_of_step, q["dynamics"], (f, change))
        fits = jnp.where(is_known[:, None], jax.vmap(fit)(*steps), 0.0)
        return chains.chain_log_normalizer(initial, transition, fits, mask)

    return jax.vmap(log_density)(y, mask)


# --- draws ----------------------------------------------------------------------------------------
class DrawLayout(NamedTuple):
    """The layout of sequences for draws."""

    y: Float[Array, "N T C"]  # observations and inputs
    mask: Bool[Array, "N T"]  # true on the steps that exist
    before: Float[Array, "N P D"]  # the steps before the first step, the latest first
    given: Float[Array, "N T D"]  # fixed steps; NaN for steps that are drawn


def _generative(form: Form) -> Generative:
    """Draws of an autoregressive hidden Markov model after the first P steps of data."""
    dim, lags = form.dim, form.num_lags

    def layout(like: Any) -> DrawLayout:
        if is_sizes(like):
            raise ValueError(
                f"like: expected data (y, mask), whose first {lags} steps and inputs draws keep, "
                f"got lengths {like}."
            )
        require_first_steps(*check_columns(like, dim, form.num_inputs), dim, lags)
        y, mask = jnp.asarray(like[0], jnp.result_type(float)), jnp.asarray(like[1], bool)
        first = jnp.arange(y.shape[1]) < lags
        before = jnp.zeros((len(y), lags, dim), y.dtype)
        return DrawLayout(y, mask, before, jnp.where(first[None, :, None], y[..., :dim], jnp.nan))

    def paths(
        values: Values, local: Values, layout: DrawLayout, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        follow = Motion.from_values(form, values["dynamics"]).follow
        inputs, keys = layout.y[..., dim:], jax.random.split(key, len(layout.y))
        return jax.vmap(follow)(local["z"], inputs, layout.before, layout.given, keys)

    def local(
        hyper: Any, values: Values, layout: DrawLayout, key: PRNGKeyArray
    ) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        draw_states = lambda key: sequences.path(
            values["initial"], values["transition"], num_steps, key
        )
        return {"z": jax.vmap(draw_states)(jax.random.split(key, size))}

    def data(
        hyper: Any, values: Values, local: Values, layout: DrawLayout, key: PRNGKeyArray
    ) -> Float[Array, "N T C"]:
        y = jnp.concatenate([paths(values, local, layout, key), layout.y[..., dim:]], -1)
        return sequences.mask_padding(y, layout)

    def ahead(
        hyper: Any,
        values: Values,
        local: Values,
        layout: DrawLayout,
        num_steps: int,
        key: PRNGKeyArray,
    ) -> tuple[Values, DrawLayout]:
        key_gaps, key = jax.random.split(key)
        observed = jnp.where(layout.mask[..., None], layout.y[..., :dim], 0.0)
        # Missing steps are drawn.
        full = paths(values, local, layout._replace(given=observed), key_gaps)
        ends = jnp.sum(layout.mask, 1)[:, None] - 1 - jnp.arange(lags)[None]
        before = jnp.take_along_axis(full, jnp.maximum(ends, 0)[..., None], axis=1)
        laws = values["initial"], values["transition"]
        z = sequences.continue_paths(local["z"], layout.mask, *laws, num_steps, key)
        y, mask = sequences.next_steps(sequences.Steps(layout.y, layout.mask), num_steps)
        return {"z": z}, DrawLayout(y, mask, before, jnp.full((*mask.shape, dim), jnp.nan, y.dtype))

    return Generative(layout, data, local, sequences.observations, ahead=ahead)
