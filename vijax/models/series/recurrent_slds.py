"""Recurrent switching linear dynamical systems: the law of motion switches with the position on the
path (Linderman, Johnson, Miller, Adams, Blei and Paninski 2017).

The model is `vijax.models.slds` with other transitions, which break a stick by logistic regressions
on the path,

    z_t = i with probability s(psi_ti) prod_{h<i} (1 - s(psi_th)),   psi_ti = w_i' x_{t-1} + r_i[z_{t-1}],   i < K - 1,

where s(psi) = 1 / (1 + e^-psi), the last state has the remaining probability, and (w_i, r_i) is
normal. Each regression that a step reaches, i <= z_t, is made conjugate by a Polya-gamma variable
(Polson, Scott and Windle 2013; Linderman et al. 2017, section 4):

    s(+-psi) = E[exp(+-psi / 2 - omega psi^2 / 2)] / 2,    omega ~ PG(1, 0)

If a step does not reach a regression, its omega has no term, and its law stays PG(1, 0), so that
the number of omega does not depend on z. q is structured mean field, q(x) q(z) q(omega), with both
chains joint; all three are updated in turn. The states are not exchangeable: the first state is
separated from all others by one plane."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.arguments import Count, NotNegative, Positive, Size, check_arguments
from vijax.checks import require
from vijax.contract import init as starts
from vijax.contract.expected import expecting
from vijax.contract.model import Model
from vijax.contract.queries import Generative, Values
from vijax.contract.room import limit_sizes
from vijax.families import Dirichlet, MultivariateNormal, PolyaGamma
from vijax.families.numeric.logistic import log_sigmoid
from vijax.families.scalar.polya_gamma import PolyaGammaStats
from vijax.inference.estep import mean_field
from vijax.models.energies.energy_model import ready_model
from vijax.models.series import sequences
from vijax.models.series.recurrent_start import start_by_slds
from vijax.models.series.slds import (
    check_observations,
    first_step,
    motion_priors,
    observed_draws,
    path_terms,
    slds,
    states_template,
)
from vijax.models.series.state_space import (
    expected_of_observations,
    path_template,
    regression_prior,
)
from vijax.models.series.switching_dynamics import Form, Motion
from vijax.xla.by_value import cache_by_value

START = 30.0
"""Tilt of omega at the start of E-steps: so large that the first path is not pulled to the planes
that separate the states."""
STICKINESS = 5.0
"""Stickiness, in steps, of the system at whose paths a fit starts."""


@cache_by_value
@limit_sizes
@check_arguments
def recurrent_slds(
    dim: Size,
    num_states: Size,
    latent_dim: Size,
    num_inputs: Count = 0,
    initial_concentration: Positive = 1.0,
    stickiness: NotNegative = 3.0,
    spread: Positive = 3.0,
    persistence: float = 1.0,
    strength: Positive = 0.01,
    degrees: Positive | None = None,
    variance: Positive = 0.1,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
    init: starts.Init | None = None,
    estep: Any = None,
) -> Model:
    """A recurrent switching linear dynamical system.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns of the observations.
      num_states: K, number of laws of motion, two or more.
      latent_dim: Q, dimension of the hidden path.
      num_inputs: M, number of last columns that are inputs: the motion depends on them, and they
          are not modelled.
      initial_concentration: concentration of the Dirichlet prior of the first state.
      stickiness: prior mean of the log odds of each regression for staying in a state.
      spread: prior standard deviation of the coefficients w and r of the switching.
      persistence: a, the share of the last step that a step keeps; coefficients of prior mean 0 are
          added to it.
      strength: prior precision of the coefficients of motion and observations, in units of their
        noise precision, counted in observations.
      degrees: degrees of freedom of the Wishart prior of the precisions of the motion, above Q - 1;
          unset: Q + 2.
      variance: inverse of the prior mean of the precisions of the motion, whose path begins at
          variance about one.
      shape: shape of the gamma prior of the noise precisions of observations and first steps.
      rate: rate of the same prior; data of another scale than one want another rate.
      init: the start; by default the paths of an `slds` after 40 steps; with `after_slds` the paths
          of your own fit.
      estep: the E-step, which updates the locals in turn; by default
          `vijax.estep.mean_field(20, 1e-3)`.

    Returns:
      A `Model` with the globals of `vijax.models.slds`, where `switching` replaces `transition`
      (MultivariateNormal over (w_i, r_i), of Q + K numbers, batch (K - 1,)). Locals are `x`, `z`
      and `omega`. Data, paths and draws are as for `slds`.

    Raises:
      ValueError: an argument outside its limits, one state; later, data unlike the above.

    >>> import vijax as vi
    >>> recurrent_slds(6, num_states=4, latent_dim=2).prior({})["switching"].mean().shape
    (3, 6)
    """
    expected = "two or more states, between which to switch"
    require(num_states >= 2, "num_states", expected, num_states)
    form = Form(latent_dim, 1, num_inputs, persistence)
    width = latent_dim + num_states

    def energy(
        stats: Any, group: tuple[Float[Array, "T C"], Bool[Array, " T"]]
    ) -> Float[Array, ""]:
        first = stats["z"].initial @ stats["initial"].log
        switches = switching_terms(
            latent_dim, stats["switching"], stats["x"], stats["z"], stats["omega"], group[1]
        )
        return first + switches + path_terms(form, dim, stats, group)

    def locals_(group: tuple[Array, Array]) -> dict[str, Any]:
        tilt = jnp.full((len(group[0]) - 1, num_states - 1), START, jnp.result_type(float))
        path = path_template(latent_dim, group)
        return {
            **path,
            "omega": PolyaGamma(-0.5 * tilt**2, 1),
            "z": states_template(num_states, False, group),
        }

    sizes = (dim, num_states, latent_dim, num_inputs)
    concentrations = (initial_concentration, 1.0, STICKINESS)
    first = slds(*sizes, *concentrations, persistence, strength, degrees, variance, shape, rate)
    mean = np.concatenate(
        [np.zeros((num_states - 1, latent_dim)), 2 * stickiness * _stick(num_states)[1].T], 1
    )
    covariance = np.broadcast_to(spread**2 * np.eye(width), (num_states - 1, width, width))
    plain_model = ready_model(
        globals={
            "initial": Dirichlet.from_concentration(initial_concentration * np.ones(num_states)),
            "switching": MultivariateNormal.from_mean_cov(mean, covariance),
            **motion_priors(form, num_states, strength, degrees, variance, shape, rate),
            "observation": regression_prior(dim, form.dim + 1, strength, shape, rate),
        },
        locals=locals_,
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 3 * (dim + num_inputs)).reshape(3, -1), np.ones(3, bool)),
        init=init or start_by_slds(first),
        estep=estep or mean_field(20, 1e-3),
        check_data=lambda data: check_observations(dim, num_inputs, data),
        generative=_generative(form, dim),
    )
    return expecting(plain_model, expected_of_observations(dim, strength, shape, rate))


def switching_terms(
    dim: int, s: Any, x: Any, z: Any, omega: PolyaGammaStats, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """sum over t >= 2 of log p(z_t, omega_t | z_{t-1}, x_{t-1}), without the density of omega under
    PG(1, 0)."""
    k = z.unary.shape[-1]
    reached, sign = _stick(k)
    product = lambda subscripts, *of: jnp.einsum(subscripts, *of, precision="highest")
    pairs = jnp.where(mask[1:, None, None], z.transition, 0.0)
    reach, pull = product("tkj,ji->tki", pairs, reached), product("tkj,ji->tki", pairs, sign)
    value, outer = s.value, s.outer
    before, square = x.value[:-1], x.outer[:-1]
    linear = product("tki,ik->", pull, value[:, dim:]) + product(
        "ti,iq,tq->", pull.sum(1), value[:, :dim], before
    )
    of_path = product("iqp,tqp->ti", outer[:, :dim, :dim], square) * reach.sum(1)
    cross = 0.5 * (outer[:, :dim, dim:] + outer[:, dim:, :dim].mT)
    mixed = product("tki,tik->ti", reach, product("iqk,tq->tik", cross, before))
    of_states = product("tki,ik->ti", reach, jnp.diagonal(outer[:, dim:, dim:], axis1=1, axis2=2))
    return (
        linear
        - 0.5 * jnp.vdot(omega.value, of_path + 2 * mixed + of_states)
        - math.log(2.0) * jnp.sum(reach)
    )


def _stick(k: int) -> tuple[Float[np.ndarray, "K S"], Float[np.ndarray, "K S"]]:
    """For each state and regression: 1 if the regression is reached, else 0; and +1/2 if it chooses
    the state, -1/2 if it passes on."""
    state, regression = np.arange(k)[:, None], np.arange(k - 1)[None]
    reached = (state >= regression).astype(float)
    return reached, np.where(state == regression, 0.5, -0.5) * reached


def stick_logits(values: Any, dim: int, x: Float[Array, " Q"], z: Array) -> Float[Array, " K"]:
    """log probabilities of the next state after x and z.

    >>> print(jnp.exp(stick_logits(jnp.zeros((2, 4)), 1, jnp.zeros(1), 0)))
    [0.5  0.25 0.25]
    """
    psi = values[:, :dim] @ x + values[:, dim:][:, z]
    stays = jnp.cumsum(log_sigmoid(-psi))
    log_rest = jnp.concatenate([jnp.zeros_like(psi[:1]), stays])
    return log_rest + jnp.concatenate([log_sigmoid(psi), jnp.zeros_like(psi[:1])])


def _generative(form: Form, dim: int) -> Generative:
    """Draws of a recurrent switching linear dynamical system."""

    def walk(
        values: Values, inputs: Array, z: Array, x: Array, goes_on: Any, key: PRNGKeyArray
    ) -> tuple[Array, Array]:
        """States and a path after `z` and `x` if `goes_on`, else from their first laws."""
        motion = Motion.from_values(form, values["dynamics"])
        key_z, key_x, key = jax.random.split(key, 3)
        first = jax.random.categorical(key_z, jnp.log(values["initial"])), first_step(values, key_x)

        def go(carry: tuple, step: tuple) -> tuple[tuple, tuple]:
            z, x, has_last = carry
            u, key = step
            key_z, key_x = jax.random.split(key)
            new_z = jax.random.categorical(key_z, stick_logits(values["switching"], form.dim, x, z))
            nothing = jnp.full((1, form.dim), jnp.nan, x.dtype)
            new_x = motion.follow(new_z[None], u[None], x[None], nothing, key_x)[0]
            new_z, new_x = (
                jnp.where(has_last, new_z, first[0]),
                jnp.where(has_last, new_x, first[1]),
            )
            return (new_z, new_x, jnp.array(True)), (new_z, new_x)

        start = z, x, jnp.asarray(goes_on)
        return jax.lax.scan(go, start, (inputs, jax.random.split(key, len(inputs))))[1]

    def local(
        hyper: Any, values: Values, layout: sequences.Steps, key: PRNGKeyArray
    ) -> dict[str, Array]:
        size = len(layout.mask)
        no_z = jnp.zeros(size, jnp.int32)
        no_x = jnp.zeros((size, form.dim), layout.y.dtype)
        none = (no_z, no_x, jnp.zeros(size, bool))
        draw = lambda inputs, z, x, goes_on, key: walk(values, inputs, z, x, goes_on, key)
        z, x = jax.vmap(draw)(layout.y[..., dim:], *none, jax.random.split(key, size))
        return {"z": z, "x": x}

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
        next_ = sequences.next_steps(layout, num_steps)
        last_z = sequences.last_steps(local["z"], layout.mask)
        last_x = sequences.last_steps(local["x"], layout.mask)
        draw = lambda inputs, z, x, goes_on, key: walk(values, inputs, z, x, goes_on, key)
        keys = jax.random.split(key, len(layout.mask))
        z, x = jax.vmap(draw)(next_.y[..., dim:], last_z, last_x, layout.mask.any(axis=1), keys)
        return {"z": z, "x": x}, next_

    check = lambda data: check_observations(dim, form.num_inputs, data)
    like = sequences.steps_like(check, np.zeros(dim + form.num_inputs))
    return Generative(like, data, local, sequences.observations, ahead=ahead)
