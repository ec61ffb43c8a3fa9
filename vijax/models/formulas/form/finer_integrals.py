"""Errors of the integrals over effects: finer ones at draws of a fit, and what they move.

With e(theta) the log likelihood by finer integrals less that of the density, draws of its posterior
with weights exp(e) are of the posterior by finer integrals. For one factor these are quadrature
with more nodes. For several factors, and more effects than quadrature can have, the integrand is
integrated along each effect in turn, others at their mode: the sum of what each integral differs
from Laplace's is exact where effects of different groups are independent given the data."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.models.formulas.effects import crossed, integrals
from vijax.models.formulas.form import process_errors
from vijax.models.formulas.form.effect_columns import (
    columns_of_all_factors,
    columns_of_one_factor,
)
from vijax.models.formulas.form.form import Form, FormFunction
from vijax.models.formulas.form.likelihood import eta_without_effects, row_log_liks
from vijax.numerals import format_number
from vijax.xla.compiler import cached_program, quick_jit

FINER = {1: 25, 2: 11, 3: 7, 4: 5}
"""Nodes a dimension of the finer quadrature, by the number of effects of a group."""
FINE = 7
"""Nodes a dimension from which on nothing is compared."""
ALONG = 11
"""Nodes of integrals along one effect."""
MOST_DRAWS, FEWEST_DRAWS = 128, 24
"""Draws at which integrals are compared; with fewer nothing is."""
MOST_WORK = 1 << 28
"""Most evaluations of a row."""
LARGE = 0.2
"""Sds of the posterior: an estimate that finer integrals move by more is named."""
FEWEST_EFFECTIVE = 10.0
"""Effective draws under the finer integrals, below which only their direction is known."""


@dataclasses.dataclass(frozen=True)
class FinerIntegrals:
    """Values of the unknowns at draws -> sentences on what finer integrals would move, and on
    Gaussian processes whose functions do not show their length scales; "" where the integrals of
    the form are exact or fine.

    Attributes:
      form: the density.
      data: its data.
    """

    form: Form
    data: Mapping[str, Any]

    @property
    def num_draws(self) -> int:
        """Draws at which integrals or covariances are compared; 0 where there is nothing to
        compare, or too much data."""
        return max(self.integral_draws, process_errors.MOST_DRAWS * bool(self.form.processes))

    @property
    def integral_draws(self) -> int:
        """Draws at which integrals are compared."""
        if not self.are_rough:
            return 0
        rows = np.asarray(self.data["weight"]).size
        number = int(min(MOST_DRAWS, MOST_WORK // max(rows * self._evaluations(), 1)))
        if number < FEWEST_DRAWS:
            return 0
        return number

    @property
    def are_rough(self) -> bool:
        """True for Laplace's approximation and few nodes."""
        form = self.form
        has_effects = any(term.labels for term in form.terms)
        is_exact = form.is_plain_normal or form.is_normal_given_sigmas
        return has_effects and not is_exact and form.nodes < FINE

    def _evaluations(self) -> int:
        """Evaluations of each row at a draw."""
        columns = sum(len(term.labels) for term in self.form.terms)
        if self.finer_nodes:
            return self.finer_nodes**columns
        return ALONG * columns

    @property
    def finer_nodes(self) -> int:
        """Nodes a dimension of the finer quadrature; 0 for integrals along each effect."""
        if len(self.form.terms) > 1:
            return 0
        return FINER.get(len(self.form.terms[0].labels), 0)

    def errors(self, values: Mapping[str, Any]) -> Float[np.ndarray, " S"]:
        """The log likelihood by finer integrals less that of the form, at draws of the unknowns."""
        make_program = functools.partial(_errors_program, self.finer_nodes)
        program = cached_program(self.form, ("finer integrals", self.finer_nodes), make_program)
        return np.asarray(program(dict(values), dict(self.data)))

    def __call__(self, values: Mapping[str, Any]) -> str:
        """The sentences."""
        sentence = process_errors.process_sentence(self.form, values)
        if not self.integral_draws:
            return sentence
        values = {name: x[: self.integral_draws] for name, x in values.items()}
        return f"{sentence} {self._shifts(values)}".lstrip()

    def _shifts(self, values: Mapping[str, Any]) -> str:
        """The sentence on finer integrals."""
        unknowns = jax.vmap(self.form.named)(dict(values))
        draws = {name: np.asarray(x, float) for name, x in unknowns.items()}
        return shift_sentence(self, self.errors(values), draws)

    @property
    def words(self) -> tuple[str, str, str]:
        """The integrals, the finer ones, and the remedy, in words."""
        nodes = self.form.nodes
        rough = f"quadrature with {nodes} nodes"
        if nodes == 1:
            rough = "Laplace's approximation"
        if self.finer_nodes:
            number = self.finer_nodes
            return rough, f"quadrature with {number} nodes", f"nodes={number} takes these."
        return rough, "integrals along each effect", ""


def shift_sentence(
    finer: FinerIntegrals, errors: Float[np.ndarray, " S"], named: Mapping[str, np.ndarray]
) -> str:
    """The moves by finer integrals, in words."""
    rough, fine, remedy = finer.words
    begin = f"Integrals over effects of groups are {rough}; by {fine}"
    num_failures = int(np.sum(~np.isfinite(errors)))
    if num_failures:
        number = f"{num_failures} of {len(errors)} draws"
        return f"{begin} they are no numbers at {number}, so that nothing is compared."
    weights = np.exp(errors - errors.max())
    weights /= weights.sum()
    effective = 1 / float(weights @ weights)
    shifts = {}
    for name, x in named.items():
        sd = float(x.std(ddof=1))
        if sd > 0:
            shifts[name] = (float(weights @ x) - float(x.mean())) / sd
    large_names = [name for name, shift in shifts.items() if abs(shift) > LARGE]
    large_names.sort(key=lambda name: -abs(shifts[name]))
    if not large_names:
        largest = max(map(abs, shifts.values()), default=0.0)
        return f"{begin} no estimate moves by more than {max(largest, 0.01):.2f} sd."
    texts = []
    for name in large_names[:3]:
        x = named[name]
        before, beyond = (
            format_number(number, float(x.std(ddof=1)), least=3)
            for number in (float(x.mean()), float(weights @ x))
        )
        texts.append(f"{name} is {beyond}, not {before} ({shifts[name]:+.1f} sd)")
    addition = ""
    if len(large_names) > 3:
        addition = f" ({len(large_names) - 3} other estimates move too)"
    if effective < FEWEST_EFFECTIVE:
        addition += ", or further off: few draws have all the weight"
    return f"{begin} {', '.join(texts)}{addition}. {remedy}".rstrip()


def _errors_program(nodes: int, form: Callable[[], Any]) -> Callable[..., Any]:
    """(values, data) -> the differences of log likelihoods, one draw after another."""

    def errors(values: Any, data: Any) -> Array:
        group_error = functools.partial(_group_error, form(), nodes)
        error_at = lambda values: jnp.sum(jax.vmap(lambda rows: group_error(values, rows))(data))
        return jax.lax.map(error_at, values)

    return quick_jit(errors)


def _group_error(form: Form, nodes: int, values: Any, rows: Any) -> Array:
    """The difference of the log likelihoods of a group; of all rows for several factors."""
    row_function = FormFunction(form, row_log_liks)
    a = eta_without_effects(form, values, rows)
    aux = form.aux(values)
    if len(form.terms) > 1:
        z = columns_of_all_factors(form, values, rows)
        return _along_all(row_function, (aux, rows), a, z)
    b = columns_of_one_factor(form, values, rows)
    if not nodes:
        return _along_each(row_function, (aux, rows), a, b, form.may_be_convex)
    by_nodes = lambda number: integrals.quadrature(
        row_function, (aux, rows), a, b, number, form.may_be_convex
    )
    return by_nodes(nodes) - by_nodes(form.nodes)


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Nodes t and log weights of integrals of exp(f(t)) with f near -t^2 / 2, over the normal."""
    t, log_weights = integrals.product_grid(ALONG, 1)
    return t[:, 0], log_weights - 0.5 * integrals.LOG_2PI


def _along_each(
    log_lik: integrals.LogLik,
    parameters: Any,
    a: Array,
    b: Float[Array, "n *C d"],
    may_be_convex: bool,
) -> Array:
    """For effects of one group: integrals along the axes in which the curvature is I."""
    mode, factor = integrals.find_mode(log_lik, parameters, a, b, may_be_convex)
    d = b.shape[-1]
    axes = jax.vmap(lambda e: integrals.backward(factor, e))(jnp.eye(d, dtype=b.dtype))
    t, log_weights = _grid()
    level = integrals.joint(log_lik, parameters, a, b, mode)
    change = lambda axis, t: integrals.joint(log_lik, parameters, a, b, mode + t * axis) - level
    changes = jax.vmap(lambda axis: jax.vmap(lambda t: change(axis, t))(jnp.asarray(t)))(axes)
    return jnp.sum(jax.nn.logsumexp(changes + jnp.asarray(log_weights), axis=1))


def _along_all(
    log_lik: integrals.LogLik, parameters: Any, a: Float[Array, " N *C"], z: crossed.Columns
) -> Array:
    """For effects of several factors: integrals along each effect, all groups of a column at
    once."""
    mode, _ = crossed.find_mode(log_lik, parameters, a, z)
    eta = a.reshape(len(a), -1) + z.times(mode)
    levels = log_lik(parameters, eta.reshape(a.shape))
    _, weights = integrals.slopes_of_rows(log_lik, parameters, eta.reshape(a.shape))
    groups, num_others = z.sizes
    total = jnp.zeros((), a.dtype)
    t, log_weights = _grid()

    def along(column: Array, place: Array, centre: Array, used: Array) -> Array:
        size = len(centre)
        bend = jnp.einsum("nc,ncd,nd->n", column, weights, column)
        sd = 1 / jnp.sqrt(1 + jnp.maximum(jnp.zeros(size, a.dtype).at[place].add(bend), 0.0))

        def change(t: Array) -> Array:
            moved_eta = eta + column * (t * sd)[place][:, None]
            rows = log_lik(parameters, moved_eta.reshape(a.shape)) - levels
            effect = centre + t * sd
            prior = -0.5 * (effect**2 - centre**2)
            return jnp.zeros(size, a.dtype).at[place].add(rows) + prior

        changes = jax.lax.map(change, jnp.asarray(t, a.dtype))
        log_ratios = changes + jnp.asarray(log_weights, a.dtype)[:, None]
        return jnp.sum(jnp.where(used, jax.nn.logsumexp(log_ratios, axis=0), 0.0))

    for k in range(z.first.shape[2]):
        all_groups = jnp.ones(groups, bool)
        total += along(z.first[:, :, k], z.group, mode.first[:, k], all_groups)
    for k in range(z.others.shape[2]):
        used = jnp.zeros(num_others, bool).at[z.places[:, k]].set(True)
        total += along(z.others[:, :, k], z.places[:, k], mode.others, used)
    return total
