"""Structured variational autoencoders of sequences: a path with linear or switching linear dynamics
between two networks (Johnson, Duvenaud, Wiltschko, Datta and Adams 2016, sections 2 and 5).

    z_1 ~ initial,  z_t | z_{t-1} ~ transition[z_{t-1}],
    x_1q ~ N(m_q, 1 / p_q),   x_t - a x_{t-1} | z_t = k ~ N(A_k x_{t-1} + B_k u_t + b_k, L_k^-1),
    y_t ~ p(y | decoder(x_t))

with u_t inputs: `vijax.models.slds` with other observations. The encoder gives potentials on each
step of the path, which are diagonal normals without their constant,

    <psi(y_t), (x_t, x_t^2)>,   psi(y_t) = encoder(y_t),

and zero if y_t is missing. With the potentials in place of the likelihood, q(x) is a Gaussian
chain, computed by the Kalman smoother, and q(z) a Markov chain, computed by forward-backward; both
are joint. The bound has the likelihood itself, at draws of q(x). With one state q(x) is the exact
posterior under the potentials."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import Count, NotNegative, Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.batch import DataForm
from vijax.contract.model import Model
from vijax.contract.queries import Generative, Values
from vijax.contract.room import limit_sizes
from vijax.families import Product
from vijax.inference.estep.networks import structured
from vijax.models.energies.energy import model_energy
from vijax.models.energies.energy_model import energy_model
from vijax.models.networks.autoencoder import Network, as_network
from vijax.models.networks.between_networks import BetweenNetworks, model_between_networks
from vijax.models.networks.observed import Observed
from vijax.models.networks.structured_parts import Parts, check_potentials
from vijax.models.series import sequences, slds
from vijax.models.series.state_space import path_template
from vijax.models.series.switching_dynamics import Form, check_columns
from vijax.xla.by_value import cache_by_value

SWEEPS = 10
"""Default number of sweeps over path and states; a path without states needs one."""


@cache_by_value
@limit_sizes
@check_arguments
def dynamic_svae(
    latent_dim: Size,
    encoder: Network,
    decoder: Network,
    observed: Observed,
    num_states: Size = 1,
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
    num_inputs: Count = 0,
) -> BetweenNetworks:
    """A structured variational autoencoder of sequences: a linear dynamical system, or a switching
    one, between two networks.

    Args:
      latent_dim: Q, dimension of the hidden path.
      encoder: (apply, params); `apply(params, y)` of one step, of shape (D,), returns the
        potentials on the path at this step, a pair (h, -J / 2), each of shape (Q,). Keep J
        positive: let a network give m and log J, and return (J m, -J / 2).
        `vijax.models.as_potentials` converts the encoder of a `vae`.
      decoder: (apply, params); `apply(params, x)` of one step of the path, of shape (Q,), returns
        the output that `observed` reads.
      observed: p(y_t | output), from `vijax.models.networks.observed`.
      num_states: K, number of laws of motion. With one the path is a linear dynamical system.
      initial_concentration: concentration of the Dirichlet prior of the first state.
      transition_concentration: concentration of the Dirichlet priors of the next state given each.
      stickiness: number added to the concentration of staying in a state.
      persistence: a, the share of the last step that a step keeps; coefficients of prior mean 0 are
          added to it.
      strength: prior precision of all coefficients and means, in units of their noise precision,
        counted in observations.
      degrees: degrees of freedom of the Wishart prior of the precisions of the motion, above Q - 1;
          unset: Q + 2.
      variance: inverse of the prior mean of the precisions of the motion.
      shape: shape of the gamma prior of the precisions of the first step.
      rate: rate of the same prior.
      init: the start of the globals; by default the modes of the encoder's potentials as path, and
        states by clusters of windows of like motion.
      num_inputs: M, number of last columns that are inputs: the motion depends on them. They are
        not modelled, and the networks do not read them.

    Returns:
      A `Model` with globals `initial`, `transition`, `start` (NormalGamma, batch (Q,)) and
      `dynamics` (MatrixNormalWishart, batch (K,)) as in `vijax.models.slds`, for `vijax.aevb`
      (natural gradients for the globals, Adam for the networks). Data: a pair (y, mask) of shapes
      (N, T, D + M) and (N, T), the mask true on the steps that exist, which come first
      (`vijax.models.pad`). A step with a NaN is missing; inputs must be known. `fit.locals(data,
      key=key)` are the laws of the paths: `["x"].mean()` smoothed paths, `["z"].probs` smoothed
      probabilities of the states. `fit.forecast(key, num_draws, data, num_steps)` draws the next
      steps with the inputs of the last step. With known future inputs, append missing steps that
      have them, and draw these by `fit.predictive(key, num_draws, data, groups="same")`.
      `model.reconstruct(fit, data)` decodes smoothed paths, `model.bound(fit, data, key=key)` are
      bounds by sequence.

    Raises:
      ValueError: an argument outside its limits; a network that is not a pair; a decoder that does
        not return a vector; potentials of other shapes; later, data unlike the above.

    A point that moves on a circle, observed through a linear map:

    >>> import jax, jax.numpy as jnp, numpy as np, vijax as vi
    >>> t = 0.5 * np.arange(20.0) + np.random.default_rng(0).uniform(0, 6, (30, 1))
    >>> y = np.stack([np.sin(t), np.cos(t), np.sin(t)], -1).astype(np.float32)
    >>> encode = lambda w, y: (100 * (y @ w), jnp.full(2, -50.0))
    >>> model = dynamic_svae(2, (encode, jnp.eye(3, 2)), (lambda w, x: x @ w, jnp.eye(2, 3)),
    ...                      vi.models.observed.gaussian(sd=0.1), variance=0.01)
    >>> data = vi.models.pad(y)
    >>> fit = vi.fit(vi.aevb(model, learning_rate=0.01), data, num_steps=200, key=jax.random.key(0))
    >>> part = y[:, :15], np.ones((30, 15), bool)
    >>> ahead = fit.forecast(jax.random.key(1), 100, part, 5).mean(0)
    >>> bool(np.abs(ahead - y[:, 15:]).mean() < 0.2)
    True
    """
    encode, encoder_params = as_network("encoder", encoder)
    decode, decoder_params = as_network("decoder", decoder)
    form = Form(latent_dim, 1, num_inputs, persistence)
    priors = slds.chain_priors(
        num_states, initial_concentration, transition_concentration, stickiness
    )
    motion = slds.motion_priors(form, num_states, strength, degrees, variance, shape, rate)
    conjugate = _surrogate(form, num_states, {**priors, **motion}, init)
    latent = jax.ShapeDtypeStruct((latent_dim,), jnp.result_type(float))
    output = jax.eval_shape(decode, decoder_params, latent)
    width = jax.eval_shape(observed.mean, output).shape
    require(len(width) == 1, "decoder", "an output for a vector of observations", f"shape {width}")
    parts = Parts(
        model_energy(conjugate),
        "x",
        _encoding(encode, latent_dim, width[0]),
        decode,
        observed,
        _fitting(decode, observed, width[0]),
        lambda group: (jnp.zeros_like(group[0]), jnp.zeros_like(group[1]), *group[2:]),
    )
    check = lambda data: _check(observed, width[0], num_inputs, data)
    return model_between_networks(
        BetweenNetworks,
        parts,
        conjugate,
        {"encoder": encoder_params, "decoder": decoder_params},
        structured(SWEEPS if num_states > 1 else 1),
        DataForm(check, ("number", "mask")),
        _generative(form, width[0], decode, observed, check),
    )


Group = tuple[Float[Array, "T Q"], Float[Array, "T Q"], Float[Array, "T M"], Bool[Array, " T"]]
"""Potentials on x and on x^2 of each step, inputs, and the mask of existing steps."""


def _surrogate(form: Form, num_states: int, globals: Any, init: starts.Init | None) -> Model:
    """The switching linear dynamical system whose data are potentials."""

    def energy(stats: Any, group: Group) -> Float[Array, ""]:
        linear, square, inputs, mask = group
        x = stats["x"]
        fit = jnp.vdot(linear, x.value) + jnp.vdot(square, jnp.diagonal(x.outer, axis1=1, axis2=2))
        return slds.chain_terms(stats) + slds.motion_terms(form, stats, inputs, mask) + fit

    def locals_(group: Group) -> dict[str, Any]:
        steps = group[0], group[3]
        return {
            **path_template(form.dim, steps),
            "z": slds.states_template(num_states, True, steps),
        }

    return energy_model(
        globals=globals,
        locals=locals_,
        energy=energy,
        example=(
            np.zeros((3, form.dim)),
            -np.ones((3, form.dim)),
            np.ones((3, form.num_inputs)),
            np.ones(3, bool),
        ),
        init=init or _start(form, num_states),
    )


@cache_by_value
def _start(form: Form, num_states: int, variance: float = 0.05) -> starts.Init:
    """The start: the modes of the potentials, smoothed, as path, and states of like motion."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        linear, square, inputs, mask = context.data().data
        mask = jnp.asarray(mask, bool) & context.counts()[:, None]
        is_observed = mask & jnp.all(square < 0, -1)
        path = jnp.where(
            is_observed[..., None], -0.5 * linear / jnp.where(square < 0, square, -1.0), 0.0
        )
        path = jnp.where(mask[..., None], slds.smooth(path, is_observed), 0.0)
        return slds.implied_by_path(form, num_states, variance, key, context, path, inputs, mask)

    return start


def _encoding(
    encode: Callable[[PyTree, Array], Any], latent_dim: int, dim: int
) -> Callable[[PyTree, PyTree], Group]:
    """(params, (y, mask)) -> the potentials of one sequence, zero at missing steps; its inputs and
    mask."""

    def potentials(params: PyTree, x: PyTree) -> Group:
        y, mask = x
        inputs = jnp.where(mask[:, None], y[:, dim:], 0.0)
        is_observed, y = _observed_steps(y[:, :dim], mask)
        like = (jnp.zeros(latent_dim),) * 2
        pair = jax.vmap(lambda y: check_potentials(encode(params, y), like))(y)
        linear, square = (jnp.where(is_observed[:, None], part, 0.0) for part in pair)
        return linear, square, inputs, mask

    return potentials


def _fitting(
    decode: Callable[[PyTree, Array], Any], observed: Observed, dim: int
) -> Callable[..., Float[Array, ""]]:
    """(params, path, (y, mask)) -> log p(y | path) of the observed steps."""

    def fits(params: PyTree, path: Float[Array, "T Q"], x: PyTree) -> Float[Array, ""]:
        is_observed, y = _observed_steps(x[0][:, :dim], x[1])
        log_probs = jax.vmap(lambda u, y: observed.log_prob(decode(params, u), y))(path, y)
        return jnp.sum(jnp.where(is_observed, log_probs, 0.0))

    return fits


def _observed_steps(
    y: Float[Array, "T D"], mask: Bool[Array, " T"]
) -> tuple[Bool[Array, " T"], Float[Array, "T D"]]:
    """The mask of observed steps, and observations with zeros at the other steps."""
    is_observed = jnp.asarray(mask, bool) & jnp.all(jnp.isfinite(y), -1)
    return is_observed, jnp.where(is_observed[:, None], y, 0.0)


def _check(observed: Observed, dim: int, num_inputs: int, data: PyTree) -> None:
    """Raises ValueError unless data are a pair (y, mask) of these columns, with observed steps
    inside the support."""
    y, mask = check_columns(data, dim, num_inputs)
    y = np.asarray(y, float)[..., :dim]
    observed.check(y[mask & ~np.isnan(y).any(-1)])


def _generative(
    form: Form,
    dim: int,
    decode: Callable[[PyTree, Array], Any],
    observed: Observed,
    check: Callable[[Any], None],
) -> Generative:
    """Draws of sequences: paths of a switching linear dynamical system, observed through the
    decoder."""

    def data(
        hyper: Any, values: Values, local: Values, layout: sequences.Steps, key: PRNGKeyArray
    ) -> Array:
        x = local["x"]
        keys = jax.random.split(key, x.shape[:2])
        draw = lambda key, u: observed.sample(key, decode(hyper["decoder"], u))
        y = jax.vmap(jax.vmap(draw))(keys, x)
        return sequences.mask_padding(
            jnp.concatenate([y, layout.y[..., dim:].astype(y.dtype)], -1), layout
        )

    like = sequences.steps_like(check, np.zeros(dim + form.num_inputs))
    return dataclasses.replace(slds.slds_generative(form, dim), layout=like, data=data)
