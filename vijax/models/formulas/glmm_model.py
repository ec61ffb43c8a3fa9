"""The model that `vijax.glmm` makes: draws from its fits, predictions of rows, tables of
coefficients."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.checks import check_key, require, require_integers
from vijax.contract.model import Model
from vijax.contract.variables import Z
from vijax.data.schema.schema import Schema
from vijax.data.schema.typed_columns import typed_table
from vijax.models.formulas import coefficients
from vijax.models.formulas.draws import (
    Draws,
    GroupEffects,
    draw_responses,
    effects_of_groups,
    log_likelihoods,
    plus_products,
)
from vijax.models.formulas.form import COEFFICIENTS, Form
from vijax.models.formulas.formula import Design, Rows, WhereNew
from vijax.models.formulas.groups import NewLevels
from vijax.models.formulas.laws import LAWS, Law
from vijax.models.formulas.nearby import NearMode
from vijax.models.formulas.priors import Prior
from vijax.models.formulas.unmodelled import check_responses
from vijax.models.formulas.weighted import row_copies
from vijax.predict.predictive import coordinates
from vijax.predict.summary import Summary, of_draws
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit
from vijax.xla.precision import matching_precision

Method = TypeVar("Method", bound=Callable)


class Prediction(NamedTuple):
    """Predictions of rows, (N,) each; of categories the first four are (N, K), in the order of
    `model.design.levels`.

    Attributes:
      mean: mean of the expected response; of categories their probabilities.
      sd: its standard deviation.
      low: lower ends of the intervals of the expected response.
      high: upper ends.
      lowest: lower ends of the intervals of the response itself; of ordered categories their
        numbers, from 0; None of categories without an order.
      highest: upper ends.
      level: the probability of the intervals.
      response_sd: standard deviation of the response itself; None of categories.
      new_levels: the groups that training has not seen, by factor, and how many rows are of them.
      notes: what else to know of these rows: splines beyond the values of training.
    """

    mean: Float[np.ndarray, " N *K"]
    sd: Float[np.ndarray, " N *K"]
    low: Float[np.ndarray, " N *K"]
    high: Float[np.ndarray, " N *K"]
    lowest: Float[np.ndarray, " N"] | None
    highest: Float[np.ndarray, " N"] | None
    level: float
    response_sd: Float[np.ndarray, " N"] | None
    new_levels: tuple[NewLevels, ...] = ()
    notes: tuple[str, ...] = ()


def _use_precision_of_fit(method: Method) -> Method:
    """A method of a fit, which computes in the precision of that fit, whatever the working
    precision is now."""

    @functools.wraps(method)
    def of_fit(self: Any, fit: Any, *given: Any, **named: Any) -> Any:
        with matching_precision(getattr(getattr(fit, "state", None), "posterior", None)):
            return method(self, fit, *given, **named)

    return of_fit  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Glmm(Model):
    """A regression by a formula: a log density of its coefficients and of the spreads of its group
    effects.

    Attributes:
      design: what the formula made of the table.
      priors: the priors by name.
      data: the data for `vijax.auto` and `vijax.fit`: one group of rows each.
      density_form: the density as functions of values.
      weights: of the rows.
    """

    design: Design
    priors: Mapping[str, Prior]
    data: dict[str, np.ndarray]
    density_form: Form
    weights: np.ndarray

    @property
    def law(self) -> Law:
        """The law of the response."""
        return LAWS[self.density_form.law]

    @property
    def schema(self) -> Schema:
        """The columns that the formula names, and what each was taken for; later tables are read by
        it."""
        return self.design.schema

    @property
    def names(self) -> list[str]:
        """Names of all unknowns: coefficients, spreads and correlations of groups, parameters of
        the law."""
        names: list[str] = []
        x = jax.ShapeDtypeStruct((self.log_density.variables.dim,), jnp.result_type(float))
        jax.eval_shape(
            lambda x: names.extend(self.density_form.named(self.log_density.values_at(x))), x
        )
        return names

    @_use_precision_of_fit
    def draws(self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Draws:
        """Draws from a fit: the unknowns of q, and the effects of all groups given them and the
        data.

        Args:
          fit: what `vijax.auto(model, model.data, key=key)` returned, or another fit of this model.
          key: random key of the draws.
          num_draws: S.
        """
        check_key(key)
        require_integers(num_draws=num_draws)
        key_q, key_effects = keys.split(key)
        free = fit.alg.spec.model.log_density
        is_own = free is not None and free.derived == self.log_density.derived
        require(
            is_own,
            "fit",
            "a fit of this model",
            "one of another formula or table",
            "Make the model of its table.",
        )
        return self._draws_at(fit, coordinates(fit.posterior[Z], key_q, num_draws), key_effects)

    @_use_precision_of_fit
    def group_effects(self, fit: Any, z: Any, key: PRNGKeyArray) -> GroupEffects:
        """Effects of all groups at draws of q: what `Fit.to_arviz` puts beside the unknowns.

        Args:
          fit: fit of this model.
          z: draws of its free coordinates, (S, dim).
          key: random key of the effects.
        """
        drawn = self._draws_at(fit, z, key).effects
        against = self.design.against
        values, dims, levels = {}, {}, {}
        last = {f"{self.design.response}_reduced_dim": np.array(against)} if against else {}
        for factor in self.design.factors:
            levels[dim := f"{factor.name}__factor_dim"] = np.array(factor.levels)
            own = drawn[factor.name].reshape(*drawn[factor.name].shape[:2], -1, len(factor.labels))
            for i, label in enumerate(factor.labels):
                values[name := f"{label}|{factor.name}"] = (
                    own[..., i] if against else own[..., 0, i]
                )
                dims[name] = [dim, *last]
        return GroupEffects(values, dims, levels | last)

    def _draws_at(self, fit: Any, z: Any, key: PRNGKeyArray) -> Draws:
        """The unknowns at draws of q, with effects of all groups drawn given them and the data."""
        free = fit.alg.spec.model.log_density
        values, named = cached_program(free, ("unknowns", self.density_form), self._unknowns)(
            fit.state.hyper, z
        )
        effects = {}
        if self.design.factors:
            drawn = self._effects_at(values, key)
            effects = {
                factor.name: np.asarray(u)
                for factor, u in zip(self.design.factors, drawn, strict=True)
            }
        unknowns = {name: np.asarray(x) for name, x in named.items()}
        return Draws({**unknowns, **self._coefficients(values)}, effects, values)

    def _effects_at(self, values: Mapping[str, Any], key: Any) -> Sequence[Any]:
        """Effects of all groups of each factor, (S, groups, effects)."""
        near = NearMode(self.density_form)
        if len(self.design.factors) > 1 and near.is_worth:
            return near.draw_effects(
                self.data, self.design.rows, self.weights, values, keys.seed(key)
            )
        return self._program(effects_of_groups)(values, dict(self.data), key)

    def _coefficients(self, values: Mapping[str, Any]) -> dict[str, Float[np.ndarray, " S"]]:
        """Coefficients at draws in float64: far from zero float32 keeps too few digits of them."""
        form = self.density_form
        if not form.labels:
            return {}
        in_units = np.stack(
            [np.asarray(values[COEFFICIENTS + label], float) for label in form.labels], 1
        )
        turn = np.array(form.units.turn).reshape(2 * [len(form.labels)])
        beta = np.array(form.units.location) + form.units.size * in_units @ turn.T
        return dict(zip(form.labels, beta.T, strict=True))

    def predictors(
        self,
        draws: Draws,
        table: Any = None,
        key: PRNGKeyArray | None = None,
        *,
        new_levels: WhereNew = "draw",
    ) -> Float[np.ndarray, "S N *C"]:
        """Predictors eta of rows at draws; of categories with a base the log odds of each other
        one, (S, N, C).

        Args:
          draws: of `draws`.
          table: rows; None takes those of training.
          key: random key of the effects of groups that training has not seen.
          new_levels: "draw" draws these from the law of groups, "error" refuses such groups.
        """
        rows = self.design.rows if table is None else self.design.read_rows(table, new_levels)
        return self._predictors(draws, rows, key)

    def _predictors(
        self, draws: Draws, rows: Rows, key: PRNGKeyArray | None
    ) -> Float[np.ndarray, "S N *C"]:
        labels, copies = self.density_form.labels, self.density_form.predictors
        eta = np.tile(rows.offset[:, None], (len(_first(draws.named)), 1, copies))
        if labels:
            beta = np.stack([draws.named[label] for label in labels], 1)
            beta = beta.reshape(len(eta), len(labels) // copies, copies)
            eta = plus_products(eta, rows.x, beta[:, None])
        strangers = {new.factor: new for new in rows.new_levels}
        for i, (factor, z, groups) in enumerate(
            zip(self.design.factors, rows.z, rows.groups, strict=True)
        ):
            known = draws.effects[factor.name]
            if (groups < 0).any():
                require(
                    key is not None,
                    "key",
                    f"a random key, for groups of {factor.name} not seen",
                    "none",
                )
                new = self._new_effects(draws, i, strangers[factor.name], key)
                own = np.where((groups < 0)[:, None], new, known[:, groups])
            else:
                own = known[:, groups]
            shape = (*own.shape[:2], copies, own.shape[2] // copies)
            eta = plus_products(eta, z, own.reshape(shape).swapaxes(2, 3))
        return eta if self.design.against else eta[..., 0]

    def _new_effects(
        self, draws: Draws, i: int, new: NewLevels, key: Any
    ) -> Float[np.ndarray, "S N d"]:
        """Effects of groups that are not known, from their law. Rows of one group share its
        effects, and its name gives their key, so that a group has the same draws whatever other
        rows there are."""
        own, size = self.density_form.effects[i], self.density_form.units.size
        factors = np.asarray(
            jax.vmap(lambda values: self.density_form.factor(values, i))(draws.values)
        )
        key = jax.random.fold_in(key, i)
        each = [jax.random.fold_in(key, zlib.crc32(name.encode())) for name in new.levels]
        noise = np.stack(
            [jax.random.normal(one, (len(factors), len(own.labels))) for one in each], 1
        )
        effects = np.einsum("sij,snj->sni", factors, noise) * size / np.array(own.sizes)
        return effects[:, new.codes]

    @_use_precision_of_fit
    def predict(
        self,
        fit: Any,
        table: Any = None,
        *,
        key: PRNGKeyArray,
        level: float = 0.9,
        num_draws: int = 1000,
        new_levels: WhereNew = "draw",
    ) -> Prediction:
        """Predictions of rows: the mean of the response there, with intervals of it and of the
        response itself.

        Args:
          fit: fit of this model.
          table: rows with the columns of the formula, but for the response; None takes the rows of
            training. Groups that training has not seen are drawn from the law of groups. Successes
            are of one trial, unless the rows are those of training.
          key: random key of the draws.
          level: probability of the intervals.
          num_draws: number of draws.
          new_levels: "draw" takes groups that training has not seen, and says in
            `Prediction.new_levels` which they are and how many rows are of them; "error" refuses
            them by name.
        """
        is_number = not isinstance(key, jax.core.Tracer)
        remedy = "It reads tables: call it outside of jax.jit and vmap."
        require(is_number, "key", "a random key that is known", "one that JAX traces", remedy)
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        key_draws, key_new, key_data = keys.split_many(key, 3)
        rows = self.design.rows if table is None else self.design.read_rows(table, new_levels)
        draws = self.draws(fit, key_draws, num_draws)
        eta = self._predictors(draws, rows, key_new)
        trials = self.design.trials if table is None else np.ones(eta.shape[1])
        mean = self.law.mean(self.density_form.law_parameters(draws.named), eta)
        mean = mean if self.design.levels else mean * trials
        drawn = self._responses(draws, eta, trials, key_data)
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        # Draws of a row side by side: its sums then do not depend on how many rows there are.
        mean, drawn = (np.ascontiguousarray(np.moveaxis(x, 0, -1)) for x in (mean, drawn))
        low, high = np.quantile(mean, ends, axis=-1)
        lowest, highest = (None, None) if self.design.against else np.quantile(drawn, ends, axis=-1)
        spread = None if self.law.categories else drawn.std(-1)
        ends_of_mean = (mean.mean(-1), mean.std(-1), low, high)
        return Prediction(
            *ends_of_mean, lowest, highest, level, spread, rows.new_levels, rows.notes
        )

    def replicated(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000
    ) -> Float[np.ndarray, "S N"]:
        """Responses drawn for the rows of training, as `Fit.predictive` draws them, each row as
        often as its weight says; of categories their numbers. ValueError for weights that are no
        whole numbers."""
        return np.asarray(fit.predictive(key, num_draws, self.data, groups="same"))

    def ratios(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9
    ) -> Summary:
        """Table of exp of the coefficients but the intercept: ratios of means behind a log link
        (before the cut at zero of hurdle laws), else of odds, for one more of the column.
        ValueError behind the identity."""
        return self._table(coefficients.ratios, fit, key, num_draws, level)

    def standardised(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9
    ) -> Summary:
        """Table of the coefficients times the sds of their columns, but of those that code
        categories: on the scale of the link, or in sds of the response where the link is the
        identity."""
        return self._table(coefficients.standardise, fit, key, num_draws, level)

    def _table(
        self, make: Callable[..., Any], fit: Any, key: PRNGKeyArray, num_draws: int, level: float
    ) -> Summary:
        named = make(self, self.draws(fit, key, num_draws))
        expected = "columns beside the intercept (to be standardised, of numbers)"
        require(bool(named), "formula", expected, repr(self.design.formula))
        return of_draws(named, level)

    @_use_precision_of_fit
    def log_lik(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000, *, table: Any = None
    ) -> Float[np.ndarray, "S N"]:
        """Log likelihoods of rows at draws, given the effects of their groups, for
        `vijax.trust.loo`. None takes the rows of training, each as often as its weight says: `loo`
        then leaves one copy out at a time. ValueError for weights that are no whole numbers."""
        y, trials = (
            (self.design.y, self.design.trials)
            if table is None
            else self.design.response_and_trials(table)
        )
        copies = row_copies(self.weights) if table is None else slice(None)
        if table is not None:
            check_responses(y, trials, self.law, self.design.response, typed_table(table).row_names)
        key_draws, key_new = keys.split(key)
        draws = self.draws(fit, key_draws, num_draws)
        aux = self.density_form.law_parameters(draws.named)
        eta = self.predictors(draws, table, key_new)
        if self.law.is_location_scale:  # what is left of y is small where y is far from zero
            y, eta = y - eta, np.zeros_like(eta)
        else:
            y = np.broadcast_to(y, (len(eta), len(y)))
        eta = eta.astype(jnp.result_type(float))
        return np.asarray(self._program(log_likelihoods)(aux, eta, y, trials))[:, copies]

    def _responses(
        self, draws: Draws, eta: np.ndarray, trials: np.ndarray, key: Any
    ) -> Float[np.ndarray, "S N"]:
        aux = self.density_form.law_parameters(draws.named)
        # Errors are drawn about zero, and added in float64: far from zero float32 keeps too few
        # digits of them.
        centre = eta if self.law.is_location_scale else np.zeros_like(eta)
        drawn = self._program(draw_responses)(
            aux, (eta - centre).astype(jnp.result_type(float)), key, trials
        )
        return (
            np.asarray(drawn, float) + centre if self.law.is_location_scale else np.asarray(drawn)
        )

    def _program(self, make: Callable[[Form], Callable[..., Any]]) -> Callable[..., Any]:
        """A program of all draws at once, made once for equal regressions."""
        return cached_program(self.log_density, make, lambda _: quick_jit(make(self.density_form)))

    def _unknowns(self, free: Any) -> Callable[..., Any]:
        """The program from draws of q to the unknowns, of a density that `free` refers to."""
        form = self.density_form

        def all_of(hyper: Any, z: Any) -> Any:
            values = jax.vmap(lambda z: free().values_at(free().point(hyper, z)))(z)
            return values, jax.vmap(form.named)(values)

        return quick_jit(all_of)


def _first(named: Mapping[str, np.ndarray]) -> np.ndarray:
    return next(iter(named.values()))
