"""Recurrent switching linear dynamical systems: the law of motion switches where the path is
(Linderman, Johnson, Miller, Adams, Blei and Paninski 2017).

As `vijax.models.slds`, but for the transitions, which break a stick by logistic regressions on the
path,

    z_t = i with probability s(psi_ti) prod_{h<i} (1 - s(psi_th)),   psi_ti = w_i' x_{t-1} + r_i[z_{t-1}],   i < K - 1,

s(psi) = 1 / (1 + e^-psi), and the last state takes the rest; (w_i, r_i) normal. Each regression
that a step reaches, i <= z_t, is made conjugate by a Polya-gamma variable (Polson, Scott and Windle
2013; Linderman et al. 2017, section 4):

    s(+-psi) = E[exp(+-psi / 2 - omega psi^2 / 2)] / 2,    omega ~ PG(1, 0)

Where a step does not reach a regression, its omega has no term, and its law stays PG(1, 0): so the
number of omega does not depend on z. Structured mean field, q(x) q(z) q(omega): both chains are
kept joint, and all three are found in turn. The states are not exchangeable: the first ones part
from all others by one plane."""

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
from vijax.models.energies.energy import energy_model
from vijax.models.series import sequences
from vijax.models.series.recurrent_start import by_slds
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
"""Tilt of omega where E-steps begin: so large that the first path is not drawn to the planes that
part the states."""
STICKINESS = 5.0
"""That of the system at whose paths a fit starts, counted in steps."""


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
      num_states: K, how many laws of motion, two or more.
      latent_dim: Q, dimension of the hidden path.
      num_inputs: M, how many of the last columns are inputs, which the motion depends on and which
          are not modelled.
      initial_concentration: concentration of the Dirichlet prior of the first state.
      stickiness: prior mean of the log odds of each regression for staying in a state.
      spread: prior standard deviation of the coefficients w and r of the switching.
      persistence: a, how much of the last step a step keeps before the coefficients, whose prior
          mean is 0, are added.
      strength: prior precision of the coefficients of motion and observations, in units of their
        noise precision, counted in observations.
      degrees: degrees of freedom of the Wishart prior of the precisions of the motion, above Q - 1;
          unset: Q + 2.
      variance: inverse of the prior mean of the precisions of the motion, whose path begins at
          variance about one.
      shape: shape of the gamma prior of the noise precisions of observations and first steps.
      rate: rate of the same prior; data of another scale than one want another rate.
      init: the start; by default at the paths of an `slds` after 40 steps; `after_slds` for those
          of a fit of your own.
      estep: how the locals are found in turn; by default `vijax.estep.mean_field(20, 1e-3)`.

    Returns:
      A `Model` with the globals of `vijax.models.slds`, but for `transition`: `switching`
      (MultivariateNormal over (w_i, r_i), of Q + K numbers, batch (K - 1,)). Locals are `x`, `z`
      and `omega`. Data, paths and draws as there.

    Raises:
      ValueError: an argument outside its limits, one state; later, data unlike the above.

    >>> import vijax as vi
    >>> recurrent_slds(6, num_states=4, latent_dim=2).prior({})["switching"].mean().shape
    (3, 6)
    """
    require(
        num_states >= 2, "num_states", "two or more states, between which to switch", num_states
    )
    form, width = Form(latent_dim, 1, num_inputs, persistence), latent_dim + num_states

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

    sizes, concentrations = (
        (dim, num_states, latent_dim, num_inputs),
        (initial_concentration, 1.0, STICKINESS),
    )
    first = slds(*sizes, *concentrations, persistence, strength, degrees, variance, shape, rate)
    mean = np.concatenate(
        [np.zeros((num_states - 1, latent_dim)), 2 * stickiness * _stick(num_states)[1].T], 1
    )
    covariance = np.broadcast_to(spread**2 * np.eye(width), (num_states - 1, width, width))
    made = energy_model(
        globals={
            "initial": Dirichlet.from_concentration(initial_concentration * np.ones(num_states)),
            "switching": MultivariateNormal.from_mean_cov(mean, covariance),
            **motion_priors(form, num_states, strength, degrees, variance, shape, rate),
            "observation": regression_prior(dim, form.dim + 1, strength, shape, rate),
        },
        locals=locals_,
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 3 * (dim + num_inputs)).reshape(3, -1), np.ones(3, bool)),
        init=init or by_slds(first),
        estep=estep or mean_field(20, 1e-3),
        check_data=lambda data: check_observations(dim, num_inputs, data),
        generative=_drawn(form, dim),
    )
    return expecting(made, expected_of_observations(dim, strength, shape, rate))


def switching_terms(
    dim: int, s: Any, x: Any, z: Any, omega: PolyaGammaStats, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """sum over t >= 2 of log p(z_t, omega_t | z_{t-1}, x_{t-1}), the density of omega under PG(1,
    0) left out."""
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
    alone = product("tki,ik->ti", reach, jnp.diagonal(outer[:, dim:, dim:], axis1=1, axis2=2))
    return (
        linear
        - 0.5 * jnp.vdot(omega.value, of_path + 2 * mixed + alone)
        - math.log(2.0) * jnp.sum(reach)
    )


def _stick(k: int) -> tuple[Float[np.ndarray, "K S"], Float[np.ndarray, "K S"]]:
    """For each state and each regression: 1 where it is reached; +1/2 where it says yes, -1/2 where
    it says no."""
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
    rest = jnp.concatenate([jnp.zeros_like(psi[:1]), stays])
    return rest + jnp.concatenate([log_sigmoid(psi), jnp.zeros_like(psi[:1])])


def _drawn(form: Form, dim: int) -> Generative:
    """Draws of a recurrent switching linear dynamical system."""

    def walk(
        values: Values, inputs: Array, z: Array, x: Array, goes_on: Any, key: PRNGKeyArray
    ) -> tuple[Array, Array]:
        """States and a path after `z` and `x`; from their first laws where there are none."""
        motion = Motion.of(form, values["dynamics"])
        key_z, key_x, key = jax.random.split(key, 3)
        first = jax.random.categorical(key_z, jnp.log(values["initial"])), first_step(values, key_x)

        def go(carry: tuple, step: tuple) -> tuple[tuple, tuple]:
            z, x, is_there = carry
            u, key = step
            key_z, key_x = jax.random.split(key)
            new = jax.random.categorical(key_z, stick_logits(values["switching"], form.dim, x, z))
            nothing = jnp.full((1, form.dim), jnp.nan, x.dtype)
            moved = motion.follow(new[None], u[None], x[None], nothing, key_x)[0]
            new, moved = jnp.where(is_there, new, first[0]), jnp.where(is_there, moved, first[1])
            return (new, moved, jnp.array(True)), (new, moved)

        start = z, x, jnp.asarray(goes_on)
        return jax.lax.scan(go, start, (inputs, jax.random.split(key, len(inputs))))[1]

    def local(
        hyper: Any, values: Values, layout: sequences.Steps, key: PRNGKeyArray
    ) -> dict[str, Array]:
        size = len(layout.mask)
        none = (
            jnp.zeros(size, jnp.int32),
            jnp.zeros((size, form.dim), layout.y.dtype),
            jnp.zeros(size, bool),
        )
        one = lambda inputs, z, x, goes_on, key: walk(values, inputs, z, x, goes_on, key)
        z, x = jax.vmap(one)(layout.y[..., dim:], *none, jax.random.split(key, size))
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
        next_ = sequences.after(layout, num_steps)
        ends = (
            sequences.last_of(local["z"], layout.mask),
            sequences.last_of(local["x"], layout.mask),
        )
        one = lambda inputs, z, x, goes_on, key: walk(values, inputs, z, x, goes_on, key)
        keys = jax.random.split(key, len(layout.mask))
        z, x = jax.vmap(one)(next_.y[..., dim:], *ends, layout.mask.any(axis=1), keys)
        return {"z": z, "x": x}, next_

    check = lambda data: check_observations(dim, form.num_inputs, data)
    like = sequences.steps_like(check, np.zeros(dim + form.num_inputs))
    return Generative(like, data, local, sequences.observed, ahead=ahead)
