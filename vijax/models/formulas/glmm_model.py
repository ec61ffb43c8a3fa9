"""The model that `vijax.glmm` makes: draws from its fits, predictions of rows, tables of
coefficients."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.checks import check_key, require, require_integers
from vijax.contract.model import Model
from vijax.contract.variables import Z
from vijax.data.schema.schema import Schema
from vijax.data.schema.typed_columns import TypedTable, typed_table
from vijax.models.formulas import coefficients
from vijax.models.formulas.answers.methods import Answers, use_precision_of_fit
from vijax.models.formulas.draws import (
    Draws,
    GroupEffects,
    draw_responses,
    effects_of_groups,
    log_likelihoods,
    plus_products,
)
from vijax.models.formulas.form import COEFFICIENTS, Form, FormFunction, prior_arguments
from vijax.models.formulas.formula import Design, Rows, WhereNew
from vijax.models.formulas.groups import NewLevels
from vijax.models.formulas.laws import Law
from vijax.models.formulas.laws.angles import unwrap, wrap_angles
from vijax.models.formulas.nearby import NearMode
from vijax.models.formulas.priors import Prior
from vijax.models.formulas.terms.complete_rows import LeftOut
from vijax.models.formulas.terms.curves import Curve, curves
from vijax.models.formulas.unmodelled import check_responses
from vijax.models.formulas.weighted import row_copies
from vijax.models.formulas.without_columns import KnownRows as KnownRows
from vijax.models.formulas.without_columns import WithoutColumns as WithoutColumns
from vijax.models.formulas.without_columns import fit_without_columns as fit_without_columns
from vijax.predict.predictive import draw_coordinates
from vijax.predict.summary import Summary, summarise_draws
from vijax.xla import keys
from vijax.xla.compiler import cached_program, quick_jit

AT_ONCE = 1 << 22
"""Most numbers of rows at draws that are computed at once, in predictions."""


class Prediction(NamedTuple):
    """Predictions of rows, (N,) each; for categories the first four are (N, K), in the order of
    `model.design.levels`.

    Attributes:
      mean: mean of the expected response; for categories their probabilities.
      sd: standard deviation of the expected response.
      low: lower ends of the intervals of the expected response.
      high: upper ends of these intervals.
      lowest: lower ends of the intervals of the response itself; for ordered categories their
        numbers, from 0; None for categories without an order.
      highest: upper ends of these intervals.
      level: the probability of the intervals.
      response_sd: standard deviation of the response itself; None for categories.
      new_levels: groups that training does not have, by factor, with their numbers of rows.
      notes: further remarks on these rows, as on splines beyond the values of training.
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


OF_ROWS = ("mean", "sd", "low", "high", "lowest", "highest", "response_sd")
"""Fields of `Prediction` with an entry for each row."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Glmm(Answers, Model):
    """A regression by a formula: a log density of its coefficients and of the spreads of its group
    effects.

    Attributes:
      design: the response, columns and groups that the formula reads from the table.
      priors: the priors by name.
      data: the data for `vijax.auto` and `vijax.fit`, by group.
      density_form: the density as functions of values.
      weights: weights of the rows.
      left_out: rows of the table that lack a cell, and were left out; None if there are none.
      table: the columns of the formula in the rows of training.
      notes: sentences on coefficients and sds that only their priors tell.
    """

    design: Design
    priors: Mapping[str, Prior]
    data: dict[str, np.ndarray]
    density_form: Form
    weights: np.ndarray
    table: TypedTable
    left_out: LeftOut | None = None
    notes: tuple[str, ...] = ()

    @property
    def law(self) -> Law:
        """The law of the response."""
        return self.density_form.response_law

    @property
    def schema(self) -> Schema:
        """The columns of the formula and their kinds; later tables are read by it."""
        return self.design.schema

    @property
    def names(self) -> list[str]:
        """Names of all unknowns: coefficients, spreads and correlations of groups, parameters of
        the law."""
        names: list[str] = []
        x = jax.ShapeDtypeStruct((self.log_density.variables.dim,), jnp.result_type(float))
        read_names = lambda x: names.extend(self.density_form.named(self.log_density.values_at(x)))
        jax.eval_shape(read_names, x)
        return names

    @use_precision_of_fit
    def draws(self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Draws:
        """Draws from a fit: the unknowns of q, and the effects of all groups given them and the
        data.

        Args:
          fit: the result of `vijax.auto(model, model.data, key=key)`, or another fit of this model.
          key: random key of the draws.
          num_draws: number of draws, S.
        """
        check_key(key)
        key_q, key_effects = keys.split(key)
        unknowns = self.draw_unknowns(fit, key_q, num_draws)
        return self._with_effects(unknowns, key_effects)

    @use_precision_of_fit
    def draw_unknowns(self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Draws:
        """Draws from a fit without the effects of groups."""
        require_integers(num_draws=num_draws)
        free = fit.alg.spec.model.log_density
        is_own = free is not None and free.derived == self.log_density.derived
        require(
            is_own,
            "fit",
            "a fit of this model",
            "one of another formula or table",
            "Make the model of its table.",
        )
        return self._read_unknowns(fit, draw_coordinates(fit.posterior[Z], key, num_draws))

    @use_precision_of_fit
    def group_effects(self, fit: Any, z: Any, key: PRNGKeyArray) -> GroupEffects:
        """Effects of all groups at draws of q, which `Fit.to_arviz` puts beside the unknowns.

        Args:
          fit: fit of this model.
          z: draws of its free coordinates, (S, dim).
          key: random key of the effects.
        """
        draws = self._with_effects(self._read_unknowns(fit, z), key)
        effects = draws.effects
        against = self.design.against
        values, dims, coords = {}, {}, {}
        categories = {f"{self.design.response}_reduced_dim": np.array(against)} if against else {}
        for factor in self.design.factors:
            dim = f"{factor.name}__factor_dim"
            coords[dim] = np.array(factor.levels)
            shape = (*effects[factor.name].shape[:2], -1, len(factor.labels))
            by_category = effects[factor.name].reshape(shape)
            if not against:
                by_category = by_category[..., 0, :]
            for i, label in enumerate(factor.labels):
                name = f"{label}|{factor.name}"
                values[name] = by_category[..., i]
                dims[name] = [dim, *categories]
        for name, weights in draws.smooths.items():
            dim = f"{name}_weights_dim"
            coords[dim] = np.arange(weights.shape[1])
            if not against:
                weights = weights.sum(-1)
            values[f"{name}_weights"] = weights
            dims[f"{name}_weights"] = [dim, *categories]
        return GroupEffects(values, dims, coords | categories)

    def prior_arguments(self, draws: Draws) -> dict[str, Float[np.ndarray, " S"]]:
        """The numbers of which the priors are, at draws, by name: the unknowns, but intercepts and
        cutpoints at the means of all columns."""
        read = lambda _: quick_jit(jax.vmap(FormFunction(self.density_form, prior_arguments)))
        arguments = cached_program(self.log_density, "prior arguments", read)(draws.values)
        return {name: np.asarray(x, float) for name, x in arguments.items()}

    def _read_unknowns(self, fit: Any, z: Any) -> Draws:
        """The unknowns at draws of q, without effects of groups."""
        free = fit.alg.spec.model.log_density
        values, by_name = cached_program(free, ("unknowns", self.density_form), self._unknowns)(
            fit.state.hyper, z
        )
        unknowns = {name: np.asarray(x) for name, x in by_name.items()}
        return Draws({**unknowns, **self._coefficients(values)}, {}, values)

    def _with_effects(self, draws: Draws, key: PRNGKeyArray) -> Draws:
        """The draws with effects of all groups, drawn given them and the data."""
        form = self.density_form
        if not form.terms:
            return draws
        effects, smooths = {}, {}
        by_term = self._draw_effects(draws.values, key)
        for i, (term, u) in enumerate(zip(form.terms, by_term, strict=True)):
            if term.is_smooth:  # of one group
                smooths[term.name] = form.effects_per_predictor(np.asarray(u)[:, 0], i)
            elif term.labels:
                effects[term.name] = np.asarray(u)
        return draws._replace(effects=effects, smooths=smooths)

    def _draw_effects(self, values: Mapping[str, Any], key: Any) -> Sequence[Any]:
        """Effects of all groups of each factor, (S, groups, effects)."""
        near_mode = NearMode(self.density_form)
        if near_mode.draws_on_host:
            weights = self.weights * self.design.facts.get("precision", 1.0)
            return near_mode.draw_effects(
                self.data, self.design.rows, weights, values, keys.seed(key)
            )
        return self._program(effects_of_groups)(values, dict(self.data), key)

    def _coefficients(self, values: Mapping[str, Any]) -> dict[str, Float[np.ndarray, " S"]]:
        """Coefficients at draws, in float64: float32 keeps too few digits of large ones."""
        form = self.density_form
        if not form.labels:
            return {}
        in_units = np.stack(
            [np.asarray(values[COEFFICIENTS + label], float) for label in form.labels], 1
        )
        turn = np.array(form.units.turn).reshape(2 * [len(form.labels)])
        beta = np.array(form.units.location) + np.array(form.units.sizes) * (in_units @ turn.T)
        return dict(zip(form.labels, beta.T, strict=True))

    def predictors(
        self,
        draws: Draws,
        table: Any = None,
        key: PRNGKeyArray | None = None,
        *,
        new_levels: WhereNew = "draw",
    ) -> Float[np.ndarray, "S N *C"]:
        """Predictors eta of rows at draws, (S, N); for categories with a base the log odds of each
        other category, (S, N, C). Parameters with formulas have `parameters`.

        Args:
          draws: draws from `draws`.
          table: rows; None takes the rows of training.
          key: random key of the effects of groups that training does not have.
          new_levels: "draw" draws these effects from the law of groups, "error" refuses the groups.
        """
        eta = self.row_predictors(draws, self._rows(table, new_levels), key)
        return self.density_form.split_predictors(eta, np)[0]

    def parameters(
        self,
        draws: Draws,
        table: Any = None,
        key: PRNGKeyArray | None = None,
        *,
        new_levels: WhereNew = "draw",
    ) -> dict[str, Float[np.ndarray, "S N"]]:
        """The parameters of the law of rows at draws, (S, N) each, as `sigma`; the arguments are
        those of `predictors`."""
        eta = self.row_predictors(draws, self._rows(table, new_levels), key)
        parameters = {
            name: np.broadcast_to(x[:, None], eta.shape[:2])
            for name, x in self.density_form.law_parameters(draws.named).items()
            if name != "threshold"
        }
        with_formulas = self.density_form.split_predictors(eta, np)[1]
        return parameters | {
            terms.name: with_formulas[terms.name]
            for terms in self.design.further
            if terms.step is None
        }

    def _rows(self, table: Any, new_levels: WhereNew = "draw") -> Rows:
        """The rows of a table; None takes those of training."""
        if table is None:
            return self.design.rows
        return self.design.read_rows(table, new_levels)

    def row_predictors(
        self, draws: Draws, rows: Rows, key: PRNGKeyArray | None
    ) -> Float[np.ndarray, "S N *C"]:
        """Predictors of rows that were read, at draws; where parameters of the law have formulas
        all of them, (S, N, C)."""
        form = self.density_form
        eta = self.common_predictors(draws, rows)
        strangers = {new.factor: new for new in rows.new_levels}
        by_factor = zip(self.design.factors, rows.z, rows.groups, strict=True)
        for i, (factor, z, groups) in enumerate(by_factor):
            factor_effects = draws.effects[factor.name]
            row_effects = factor_effects[:, groups]
            is_new = groups < 0
            if is_new.any():
                expected = f"a random key, for groups of {factor.name} not seen"
                require(key is not None, "key", expected, "none")
                new = self._new_effects(draws, i, strangers[factor.name], key)
                row_effects = np.where(is_new[:, None], new, row_effects)
            eta = plus_products(eta, z, form.effects_per_predictor(row_effects, i))
        if form.parameters or self.design.against:
            return eta
        return eta[..., 0]

    def common_predictors(self, draws: Draws, rows: Rows) -> Float[np.ndarray, "S N C"]:
        """Predictors of rows at draws without the effects of groups; C is 1 where there is one."""
        form = self.density_form
        offset = rows.offset
        if not form.parameters:
            offset = np.broadcast_to(offset[:, None], (len(offset), form.predictors))
        eta = np.tile(offset, (len(_first_value(draws.named)), 1, 1))
        return plus_products(eta, rows.common, self.common_coefficients(draws)[:, None])

    def common_coefficients(self, draws: Draws) -> Float[np.ndarray, "S P C"]:
        """Coefficients of the columns `Rows.common` at draws, by predictor."""
        form = self.density_form
        size = len(_first_value(draws.named))
        parts = [np.zeros((size, 0, form.predictors + len(form.parameters)))]
        if form.labels:
            beta = np.stack([draws.named[label] for label in form.labels], 1)
            parts.append(form.per_predictor(beta))
        if form.monotone:
            parts.append(form.per_predictor(self._excess_steps(draws), form.step_slots))
        parts += [np.asarray(draws.smooths[term.name], float) for term in form.smooths]
        return np.concatenate(parts, 1)

    def _excess_steps(self, draws: Draws) -> Float[np.ndarray, "S D"]:
        """Coefficients of the indicators of the steps of monotone terms at draws."""
        parts = [np.zeros((len(_first_value(draws.named)), 0))]
        size = len(parts[0])
        for terms in self.density_form.monotone_terms():
            excesses = []
            for term in terms:
                shares = np.stack([draws.named[name] for name in term.share_names()], 1)
                excesses.append(term.excess(draws.named[term.label], np.asarray(shares, float)))
            parts.append(np.stack(excesses, -1).reshape(size, -1))
        return np.concatenate(parts, 1)

    def smooth_curves(self, draws: Draws) -> list[Curve]:
        """The smooth functions s(x) of one column over the values of training, at draws, on the
        scale of the link."""
        return curves(self.design, draws)

    def response_means(
        self, draws: Draws, rows: Rows, eta: Float[np.ndarray, "S N *C"]
    ) -> Float[np.ndarray, "S N *K"]:
        """Means of the response of rows at draws, given their predictors: per trial for successes
        among trials; the probability of each category; the mean direction of angles."""
        return self.law.read_averages(self.means_to_average(draws, eta))

    def means_to_average(self, draws: Draws, eta: Float[np.ndarray, "S N *C"]) -> np.ndarray:
        """The means of rows at draws; of angles the means of e^(iy), whose averages have a
        direction."""
        main, by_row = self.density_form.split_predictors(eta, np)
        parameters = {**self.density_form.law_parameters(draws.named), **by_row}
        return self.law.to_average(parameters, main)

    def _new_effects(
        self, draws: Draws, i: int, new: NewLevels, key: Any
    ) -> Float[np.ndarray, "S N d"]:
        """Effects of groups that training does not have, drawn from the law of groups. Rows of one
        group share its effects. The name of a group gives its key, so that its draws do not depend
        on the other rows."""
        term = self.density_form.effects[i]
        factor_at = lambda values: self.density_form.factor(values, i)
        factors = np.asarray(jax.vmap(factor_at)(draws.values))
        key = jax.random.fold_in(key, i)
        group_keys = [jax.random.fold_in(key, zlib.crc32(name.encode())) for name in new.levels]
        shape = (len(factors), len(term.labels))
        noise = np.stack([jax.random.normal(group_key, shape) for group_key in group_keys], 1)
        units = self.density_form.effect_units(i)
        effects = np.einsum("sij,snj->sni", factors, noise) * units
        return effects[:, new.codes]

    @use_precision_of_fit
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
        """Predictions of rows: the mean of their response, with intervals of the mean and of the
        response itself.

        Args:
          fit: fit of this model.
          table: rows with the columns of the formula except the response; None takes the rows of
            training. Effects of groups that training does not have are drawn from the law of
            groups. New rows count as one trial each, and of precision one where they do not have
            its column. Responses that are censored, truncated or
            measured with known errors are predicted as they are before that. Of angles the mean
            direction is predicted, and ends of intervals may lie beyond pi; of a quantile
            regression the quantile.
          key: random key of the draws.
          level: probability of the intervals.
          num_draws: number of draws.
          new_levels: "draw" takes groups that training does not have, and lists them with their
            numbers of rows in `Prediction.new_levels`; "error" refuses them by name.
        """
        is_number = not isinstance(key, jax.core.Tracer)
        remedy = "It reads tables: call it outside of jax.jit and vmap."
        require(is_number, "key", "a random key that is known", "one that JAX traces", remedy)
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        key_draws, key_new, key_data = keys.split_many(key, 3)
        rows = self._rows(table, new_levels)
        draws = self.draws(fit, key_draws, num_draws)
        trials = self.design.trials if table is None else np.ones(len(rows.offset))
        precisions = self.design.row_precisions(table)
        parts = []
        for places in self.row_parts(len(rows.offset), num_draws):
            part = rows.part(places)
            facts = {"trials": trials[places]}
            if precisions is not None:
                facts["precision"] = precisions[places]
            parts.append(self._predict_part(draws, part, facts, level, (key_new, key_data)))
        joined = {name: _join([getattr(part, name) for part in parts]) for name in OF_ROWS}
        return parts[0]._replace(**joined, new_levels=rows.new_levels, notes=rows.notes)

    def row_parts(self, size: int, num_draws: int) -> list[slice]:
        """Parts of rows that are computed at once: a number for each draw, and category, of all
        rows may not fit into memory."""
        numbers = num_draws * max(len(self.design.levels), 1)
        step = max(AT_ONCE // numbers, 1)
        return [slice(start, start + step) for start in range(0, max(size, 1), step)]

    def _predict_part(
        self,
        draws: Draws,
        rows: Rows,
        facts: Mapping[str, Float[np.ndarray, " N"]],
        level: float,
        row_keys: tuple[Any, Any],
    ) -> Prediction:
        """Predictions of some rows."""
        key_new, key_data = row_keys
        eta = self.row_predictors(draws, rows, key_new)
        mean = self.response_means(draws, rows, eta)
        if not self.design.levels:
            mean = mean * facts["trials"]
        outcomes = self._responses(draws, eta, facts, key_data)
        if self.law.is_circular:
            mean, outcomes = unwrap(mean, outcomes)
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        # Draws of a row lie side by side: the rounding of its sums then does not depend on the
        # number of rows.
        mean, outcomes = (np.ascontiguousarray(np.moveaxis(x, 0, -1)) for x in (mean, outcomes))
        low, high = np.quantile(mean, ends, axis=-1)
        centre = mean.mean(-1)
        if self.law.is_circular:
            centre = wrap_angles(centre)
        lowest, highest = (
            (None, None) if self.design.against else np.quantile(outcomes, ends, axis=-1)
        )
        spread = None if self.law.categories else outcomes.std(-1)
        return Prediction(
            mean=centre,
            sd=mean.std(-1),
            low=low,
            high=high,
            lowest=lowest,
            highest=highest,
            level=level,
            response_sd=spread,
        )

    def replicated(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000
    ) -> Float[np.ndarray, "S N"]:
        """Responses drawn for the rows of training, as `Fit.predictive` draws them; for categories
        their numbers. A row of weight w stands w times: ValueError if a weight is not a whole
        number."""
        return np.asarray(fit.predictive(key, num_draws, self.data, groups="same"))

    def ratios(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9
    ) -> Summary:
        """Table of exp of all coefficients except the intercept, for one more of the column: ratios
        of means for a log link (before the cut at zero of hurdle laws), else of odds. ValueError
        for the identity link."""
        return self._table(coefficients.ratios, fit, key, num_draws, level)

    def standardised(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9
    ) -> Summary:
        """Table of the coefficients times the sds of their columns, on the scale of the link; in
        sds of the response for the identity link. Columns that code categories are left out."""
        return self._table(coefficients.standardise, fit, key, num_draws, level)

    def _table(
        self, make: Callable[..., Any], fit: Any, key: PRNGKeyArray, num_draws: int, level: float
    ) -> Summary:
        by_name = make(self, self.draws(fit, key, num_draws))
        expected = "columns beside the intercept (to be standardised, of numbers)"
        require(bool(by_name), "formula", expected, repr(self.design.formula))
        return summarise_draws(by_name, level)

    @use_precision_of_fit
    def log_lik(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000, *, table: Any = None
    ) -> Float[np.ndarray, "S N"]:
        """Log likelihoods of rows at draws, given the effects of their groups, for
        `vijax.trust.loo`. None takes the rows of training. A row of weight w then stands w times,
        and `loo` leaves out one copy at a time: ValueError if a weight is not a whole number."""
        copies: Any = slice(None)
        if table is None:
            y, trials = self.design.y, self.design.trials
            facts = self.design.facts
            copies = row_copies(self.weights)
        else:
            y, trials = self.design.response_and_trials(table)
            facts = self.design.read_facts(table)
            check_responses(y, trials, self.law, self.design.response, typed_table(table).row_names)
        key_draws, key_new = keys.split(key)
        draws = self.draws(fit, key_draws, num_draws)
        aux = self.density_form.law_parameters(draws.named)
        rows = self._rows(table)
        eta = self.row_predictors(draws, rows, key_new)
        shared = {"trials": trials, **facts}
        by_draw = {"y": np.broadcast_to(y, (len(eta), *y.shape))}
        if self.law.is_location_scale:  # the residual keeps its digits where y is large
            main = self.density_form.split_predictors(eta, np)[0]
            eta = self._drop_location(eta)
            by_draw = {"y": y - main}
            for name in {"end", "lowest", "highest"} & set(facts):
                by_draw[name] = shared.pop(name) - main
        eta = eta.astype(jnp.result_type(float))
        return np.asarray(self._program(log_likelihoods)(aux, eta, by_draw, shared))[:, copies]

    def _responses(
        self, draws: Draws, eta: np.ndarray, facts: Mapping[str, np.ndarray], key: Any
    ) -> Float[np.ndarray, "S N"]:
        aux = self.density_form.law_parameters(draws.named)
        draw = self._program(draw_responses)
        dtype = jnp.result_type(float)
        if not self.law.is_location_scale:
            return np.asarray(draw(aux, eta.astype(dtype), key, facts))
        # Errors are drawn about zero, and added in float64: float32 keeps too few digits of them
        # where eta is large.
        errors = draw(aux, self._drop_location(eta).astype(dtype), key, facts)
        return np.asarray(errors, float) + self.density_form.split_predictors(eta, np)[0]

    def _drop_location(self, eta: np.ndarray) -> np.ndarray:
        """The predictors of rows with zero in place of that of the response."""
        if not self.density_form.parameters:
            return np.zeros_like(eta)
        eta = eta.copy()
        eta[..., 0] = 0.0
        return eta

    def _program(self, make: Callable[[Form], Callable[..., Any]]) -> Callable[..., Any]:
        """A program over all draws, compiled once for equal regressions."""
        return cached_program(self.log_density, make, lambda _: quick_jit(make(self.density_form)))

    def _unknowns(self, free: Any) -> Callable[..., Any]:
        """The program from draws of q to the unknowns; `free` refers to their density."""
        form = self.density_form

        def unknowns(hyper: Any, z: Any) -> Any:
            values = jax.vmap(lambda z: free().values_at(free().point(hyper, z)))(z)
            return values, jax.vmap(form.named)(values)

        return quick_jit(unknowns)


def _join(parts: Sequence[np.ndarray | None]) -> Any:
    """Parts of rows as one array; None where the parts have none."""
    arrays = [part for part in parts if part is not None]
    if not arrays:
        return None
    return np.concatenate(arrays)


def _first_value(by_name: Mapping[str, np.ndarray]) -> np.ndarray:
    return next(iter(by_name.values()))
