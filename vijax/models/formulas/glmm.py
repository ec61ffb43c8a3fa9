"""Regressions by a formula, with effects of groups: `vijax.glmm`."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.arguments import checked
from vijax.checks import check_key, require, require_integers
from vijax.contract.model import Model
from vijax.contract.queries import answers
from vijax.contract.variables import Z
from vijax.data.formulas.design_columns import Functions
from vijax.data.schema.schema import Schema
from vijax.data.schema.typed_columns import TypedTable
from vijax.models.energies.density import density
from vijax.models.formulas import coefficients
from vijax.models.formulas import formula as formulas
from vijax.models.formulas.crossed_normal import sums_of
from vijax.models.formulas.form import COEFFICIENTS, Form, form_of
from vijax.models.formulas.groups import Factor, NewLevels
from vijax.models.formulas.laws import LAWS, Law
from vijax.models.formulas.priors import Prior, changed, weak
from vijax.models.formulas.responses import responses
from vijax.predict.predictive import coordinates
from vijax.predict.summary import Summary, of_draws
from vijax.xla import keys
from vijax.xla.by_value import by_value
from vijax.xla.compiler import kept, quick_jit

OfNumbers = Literal[
    "gaussian",
    "t",
    "poisson",
    "negativebinomial",
    "gamma",
    "beta",
    "zero_inflated_poisson",
    "zero_inflated_negativebinomial",
    "hurdle_poisson",
    "hurdle_negativebinomial",
]
"""Laws of a response of one number a row."""
OfClasses = Literal["categorical", "cumulative"]
Family = Literal[OfNumbers, "bernoulli", "binomial", OfClasses]
NODES = {0: 1, 1: 11, 2: 7, 3: 5}
"""Nodes a dimension of the quadrature over effects of a group, by their number; Laplace's approximation beyond."""
ENOUGH = {100: 3, 30: 5, 0: 11}
"""Nodes that are enough for groups of so many rows or more: all but a tenth of the groups have them."""
MOST_NUMBERS = 2**29
"""Numbers of the rows of a table, with padding, at most."""
EXACT, SOME = 1e-12, 200
"""What least squares leave that is rounding alone, as a share of the response; rows that tell in most cases."""
MOST_DENSE = 2000
"""Effects beside those of the largest factor, at most."""


class Draws(NamedTuple):
    """Draws of all unknowns of a regression.

    Attributes:
      named: coefficients, standard deviations, correlations and parameters of the law by name, (S,) each.
      effects: effects of the groups by the name of the factor, (S, groups, effects): of categories with a base, those
        of one category after those of another.
      values: the same unknowns in units of size one, as the density has them.
    """

    named: dict[str, Float[np.ndarray, " S"]]
    effects: dict[str, Float[np.ndarray, "S J d"]]
    values: dict[str, Any]


class GroupEffects(NamedTuple):
    """Draws of the effects of groups, with the labels that ArviZ gives to axes; names are Bambi's.

    Attributes:
      values: by name, "1|g" or "x|g": (S, groups), or (S, groups, C) where each of C categories has a predictor.
      dims: the names of these axes, by the same name.
      coords: names of the groups, and of the categories, by the name of the axis.
    """

    values: dict[str, Float[np.ndarray, "S J *C"]]
    dims: dict[str, list[str]]
    coords: dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Glmm(Model):
    """A regression by a formula: a log density of its coefficients and of the spreads of its group effects.

    Attributes:
      design: what the formula made of the table.
      priors: the priors by name.
      data: the data for `vijax.auto` and `vijax.fit`: one group of rows each.
      density_form: the density as functions of values.
      weights: of the rows.
    """

    design: formulas.Design
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
        """The columns that the formula names, and what each was taken for; later tables are read by it."""
        return self.design.schema

    @property
    def names(self) -> list[str]:
        """Names of all unknowns: coefficients, spreads and correlations of groups, parameters of the law."""
        found: list[str] = []
        x = jax.ShapeDtypeStruct((self.log_density.variables.dim,), jnp.result_type(float))
        jax.eval_shape(lambda x: found.extend(self.density_form.named(self.log_density.values_at(x))), x)
        return found

    def draws(self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Draws:
        """Draws from a fit: the unknowns of q, and the effects of all groups given them and the data.

        Args:
          fit: what `vijax.auto(model, model.data, key=key)` returned, or another fit of this model.
          key: random key of the draws.
          num_draws: S.
        """
        check_key(key)
        require_integers(num_draws=num_draws)
        key_q, key_effects = keys.two(key)
        free = fit.alg.spec.model.log_density
        is_own = free is not None and free.derived == self.log_density.derived
        require(is_own, "fit", "a fit of this model", "one of another formula or table", "Make the model of its table.")
        return self._draws_at(fit, coordinates(fit.posterior[Z], key_q, num_draws), key_effects)

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
                values[name := f"{label}|{factor.name}"] = own[..., i] if against else own[..., 0, i]
                dims[name] = [dim, *last]
        return GroupEffects(values, dims, levels | last)

    def _draws_at(self, fit: Any, z: Any, key: PRNGKeyArray) -> Draws:
        """The unknowns at draws of q, with effects of all groups drawn given them and the data."""
        free = fit.alg.spec.model.log_density
        values, named = kept(free, ("unknowns", self.density_form), self._unknowns)(fit.state.hyper, z)
        effects = {}
        if self.design.factors:
            found = self._program(_effects)(values, dict(self.data), key)
            effects = {factor.name: np.asarray(u) for factor, u in zip(self.design.factors, found, strict=True)}
        unknowns = {name: np.asarray(x) for name, x in named.items()}
        return Draws({**unknowns, **self._coefficients(values)}, effects, values)

    def _coefficients(self, values: Mapping[str, Any]) -> dict[str, Float[np.ndarray, " S"]]:
        """Coefficients at draws in float64: far from zero float32 keeps too few digits of them."""
        form = self.density_form
        if not form.labels:
            return {}
        in_units = np.stack([np.asarray(values[COEFFICIENTS + label], float) for label in form.labels], 1)
        turn = np.array(form.units.turn).reshape(2 * [len(form.labels)])
        beta = np.array(form.units.location) + form.units.size * in_units @ turn.T
        return dict(zip(form.labels, beta.T, strict=True))

    def predictors(
        self,
        draws: Draws,
        table: Any = None,
        key: PRNGKeyArray | None = None,
        *,
        new_levels: formulas.WhereNew = "draw",
    ) -> Float[np.ndarray, "S N *C"]:
        """Predictors eta of rows at draws; of categories with a base the log odds of each other one, (S, N, C).

        Args:
          draws: of `draws`.
          table: rows; None takes those of training.
          key: random key of the effects of groups that training has not seen.
          new_levels: "draw" draws these from the law of groups, "error" refuses such groups.
        """
        rows = self.design.rows if table is None else self.design.rows_of(table, new_levels)
        return self._predictors(draws, rows, key)

    def _predictors(self, draws: Draws, rows: formulas.Rows, key: PRNGKeyArray | None) -> Float[np.ndarray, "S N *C"]:
        labels, copies = self.density_form.labels, self.density_form.predictors
        eta = np.tile(rows.offset[:, None], (len(_first(draws.named)), 1, copies))
        if labels:
            beta = np.stack([draws.named[label] for label in labels], 1)
            beta = beta.reshape(len(eta), len(labels) // copies, copies)
            eta = _plus_products(eta, rows.x, beta[:, None])
        strangers = {new.factor: new for new in rows.new_levels}
        for i, (factor, z, groups) in enumerate(zip(self.design.factors, rows.z, rows.groups, strict=True)):
            known = draws.effects[factor.name]
            if (groups < 0).any():
                require(key is not None, "key", f"a random key, for groups of {factor.name} not seen", "none")
                new = self._new_effects(draws, i, strangers[factor.name], key)
                own = np.where((groups < 0)[:, None], new, known[:, groups])
            else:
                own = known[:, groups]
            shape = (*own.shape[:2], copies, own.shape[2] // copies)
            eta = _plus_products(eta, z, own.reshape(shape).swapaxes(2, 3))
        return eta if self.design.against else eta[..., 0]

    def _new_effects(self, draws: Draws, i: int, new: NewLevels, key: Any) -> Float[np.ndarray, "S N d"]:
        """Effects of groups that are not known, from their law. Rows of one group share its effects, and its name gives
        their key, so that a group has the same draws whatever other rows there are."""
        own, size = self.density_form.effects[i], self.density_form.units.size
        factors = np.asarray(jax.vmap(lambda values: self.density_form.factor(values, i))(draws.values))
        key = jax.random.fold_in(key, i)
        each = [jax.random.fold_in(key, zlib.crc32(name.encode())) for name in new.levels]
        noise = np.stack([jax.random.normal(one, (len(factors), len(own.labels))) for one in each], 1)
        effects = np.einsum("sij,snj->sni", factors, noise) * size / np.array(own.sizes)
        return effects[:, new.codes]

    def predict(
        self,
        fit: Any,
        table: Any = None,
        *,
        key: PRNGKeyArray,
        level: float = 0.9,
        num_draws: int = 1000,
        new_levels: formulas.WhereNew = "draw",
    ) -> Prediction:
        """Predictions of rows: the mean of the response there, with intervals of it and of the response itself.

        Args:
          fit: fit of this model.
          table: rows with the columns of the formula, but for the response; None takes the rows of training. Groups
            that training has not seen are drawn from the law of groups. Successes are of one trial, unless the rows are
            those of training.
          key: random key of the draws.
          level: probability of the intervals.
          num_draws: number of draws.
          new_levels: "draw" takes groups that training has not seen, and says in `Prediction.new_levels` which they
            are and how many rows are of them; "error" refuses them by name.
        """
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        key_draws, key_new, key_data = keys.several(key, 3)
        rows = self.design.rows if table is None else self.design.rows_of(table, new_levels)
        draws = self.draws(fit, key_draws, num_draws)
        eta = self._predictors(draws, rows, key_new)
        trials = self.design.trials if table is None else np.ones(eta.shape[1])
        mean = self.law.mean(self.density_form.others(draws.named), eta)
        mean = mean if self.design.levels else mean * trials
        drawn = self._responses(draws, eta, trials, key_data)
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        # Draws of a row side by side: its sums then do not depend on how many rows there are.
        mean, drawn = (np.ascontiguousarray(np.moveaxis(x, 0, -1)) for x in (mean, drawn))
        low, high = np.quantile(mean, ends, axis=-1)
        lowest, highest = (None, None) if self.design.against else np.quantile(drawn, ends, axis=-1)
        spread = None if self.law.categories else drawn.std(-1)
        ends_of_mean = (mean.mean(-1), mean.std(-1), low, high)
        return Prediction(*ends_of_mean, lowest, highest, level, spread, rows.new_levels, rows.notes)

    def replicated(self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Float[np.ndarray, "S N"]:
        """Responses drawn for the rows of training, as `Fit.predictive` draws them; of categories their numbers."""
        return np.asarray(fit.predictive(key, num_draws, self.data, groups="same"))

    def ratios(self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9) -> Summary:
        """Table of exp of the coefficients but the intercept: ratios of means behind a log link (before the cut at zero
        of hurdle laws), else of odds, for one more of the column. ValueError behind the identity."""
        return self._table(coefficients.ratios, fit, key, num_draws, level)

    def standardised(self, fit: Any, key: PRNGKeyArray, num_draws: int = 4000, *, level: float = 0.9) -> Summary:
        """Table of the coefficients times the sds of their columns, but of those that code categories: on the scale of
        the link, or in sds of the response where the link is the identity."""
        return self._table(coefficients.standardised, fit, key, num_draws, level)

    def _table(self, make: Callable[..., Any], fit: Any, key: PRNGKeyArray, num_draws: int, level: float) -> Summary:
        found = make(self, self.draws(fit, key, num_draws))
        require(
            bool(found),
            "formula",
            "columns beside the intercept (to be standardised, of numbers)",
            repr(self.design.formula),
        )
        return of_draws(found, level)

    def log_lik(
        self, fit: Any, key: PRNGKeyArray, num_draws: int = 1000, *, table: Any = None
    ) -> Float[np.ndarray, "S N"]:
        """Log likelihoods of rows at draws, given the effects of their groups, for `vijax.trust.loo`. None takes the
        rows of training."""
        y, trials = (self.design.y, self.design.trials) if table is None else self.design.seen(table)
        _check(y, trials, self.law, self.design.response)
        key_draws, key_new = keys.two(key)
        draws = self.draws(fit, key_draws, num_draws)
        aux = self.density_form.others(draws.named)
        eta = self.predictors(draws, table, key_new)
        if self.law.of_location:  # what is left of y is small where y is far from zero
            y, eta = y - eta, np.zeros_like(eta)
        else:
            y = np.broadcast_to(y, (len(eta), len(y)))
        eta = eta.astype(jnp.result_type(float))
        return np.asarray(self._program(_log_lik)(aux, eta, y, trials)) * (self.weights if table is None else 1.0)

    def _responses(self, draws: Draws, eta: np.ndarray, trials: np.ndarray, key: Any) -> Float[np.ndarray, "S N"]:
        aux = self.density_form.others(draws.named)
        # Errors are drawn about zero, and added in float64: far from zero float32 keeps too few digits of them.
        centre = eta if self.law.of_location else np.zeros_like(eta)
        drawn = self._program(_responses)(aux, (eta - centre).astype(jnp.result_type(float)), key, trials)
        return np.asarray(drawn, float) + centre if self.law.of_location else np.asarray(drawn)

    def _program(self, make: Callable[[Form], Callable[..., Any]]) -> Callable[..., Any]:
        """A program of all draws at once, made once for equal regressions."""
        return kept(self.log_density, make, lambda _: quick_jit(make(self.density_form)))

    def _unknowns(self, free: Any) -> Callable[..., Any]:
        """The program from draws of q to the unknowns, of a density that `free` refers to."""
        form = self.density_form

        def all_of(hyper: Any, z: Any) -> Any:
            values = jax.vmap(lambda z: free().values_at(free().point(hyper, z)))(z)
            return values, jax.vmap(form.named)(values)

        return quick_jit(all_of)


class Prediction(NamedTuple):
    """Predictions of rows, (N,) each; of categories the first four are (N, K), in the order of `model.design.levels`.

    Attributes:
      mean: mean of the expected response; of categories their probabilities.
      sd: its standard deviation.
      low: lower ends of the intervals of the expected response.
      high: upper ends.
      lowest: lower ends of the intervals of the response itself; of ordered categories their numbers, from 0; None of
        categories without an order.
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


@checked
def glmm(
    formula: str,
    table: Any,
    family: Family | None = None,
    priors: Mapping[str, Sequence[Any]] | None = None,
    weights: Any = None,
    nodes: int | None = None,
    base: str | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Glmm:
    """A generalised linear model with effects of groups, by a formula.

    Args:
      formula: `response ~ terms`, as in lme4 and Bambi: interactions `a*b` and `a:b`, splines `bs(x, df=4)`,
        polynomials `poly(x, 2)`, categories `C(h, Sum)`, `offset(x)`, arithmetic `I(x**2)`, functions of numbers
        `log(x)` or `np.log(x)`, and group effects `(x | g)`: an intercept and a slope of x for each g, correlated;
        independent with `(x || g)`; without an intercept `(0 + x | g)`; nested `(1 | g/h)`; of several factors.
        Successes among trials are `p(successes, trials)`, one level of a column is `h['b']`. Names with blanks and
        other letters stand between backquotes. The grammar is closed (`vijax.data.formulas.parser`): what it does not
        have is an error, and nothing of a formula is run. Means in `I(x - np.mean(x))` are of the rows of training.
      table: columns by name (a dict, a table of pandas, polars or pyarrow), or the path of a file.
      family: law of the response. None follows it: "gaussian" for numbers, "bernoulli" for text of two kinds and for
        True and False, "categorical" for text of more, "binomial" for successes among trials. Links are the identity
        for "gaussian" and "t", the logit for "bernoulli", "binomial" and "beta", the logarithm for the others.
        "zero_inflated_..." counts with probability psi and is zero else; "hurdle_..." is not zero with probability psi.
        "cumulative" is for ordered categories (numbers, text in the order of the alphabet, an ordered column of
        pandas): logit P(y <= k) = threshold[k] - eta, without an intercept. "categorical" is for categories without an
        order: log P(y = k) / P(y = base) is a predictor of its own for each k, with coefficients and effects of groups
        "x[k]", "1|g_sigma[k]"; effects of different k are independent.
      priors: priors in place of the weakly informative ones of Bambi's rule (`model.priors`), by name: {"x": ("normal",
        0, 1), "1|g_sigma": ("half_normal", 2), "corr|g": ("lkj", 2)}. The intercept has its prior at the means of all
        columns, and so have thresholds.
      weights: a column, or an array: a row of weight 2 counts as two rows, in priors too. Knots of splines, and means
        of `scale(x)`, are those of rows without weights.
      nodes: nodes a dimension of the quadrature over the effects of a group; None takes 11, 7 or 5 for one, two or
        three effects of one factor, down to 3 where groups have 100 rows, else 1, which is Laplace's approximation. Not
        used for "gaussian", whose integrals are exact.
      base: the category with which "categorical" compares the others; None takes the first, as numbers, letters or a
        column of pandas have them in order.
      functions: your own functions by name, which the formula may then call: arrays (N,) in, an array (N,) out. They
        can be given here alone, never in a file.

    Returns:
      A `Model`, a log density of its coefficients and of the spreads of its groups, whose effects are integrated out.
      Fit it by `vijax.auto(model, key=key)`, which reads `model.data`; `fit.summary()` has all names,
      `fit.predict(table, key=key)` predicts. `model.ratios`, `model.standardised`, `model.draws`, `model.replicated`
      and `model.log_lik` take the fit.

    Raises:
      ValueError: a formula that cannot be read, a table that lacks a column, a response that the family does not have.

    >>> rng = np.random.default_rng(0)
    >>> g, x = np.arange(200) % 20, rng.normal(size=200)
    >>> y = 1 + 2 * x + rng.normal(size=20)[g] + 0.5 * rng.normal(size=200)
    >>> model = glmm("y ~ x + (1 | g)", {"y": y, "x": x, "g": g})
    >>> model.free.derived and list(model.priors)
    ['Intercept', 'x', '1|g_sigma', 'sigma']
    """
    require(isinstance(formula, str), "formula", "text", type(formula).__name__)
    if isinstance(table, str):  # its rows are the argument, not its path: the file may change
        table = formulas.table_at(formula, table, functions, family)
    return _glmm(formula, table, family, priors, weights, nodes, base, functions)


@by_value
def _glmm(
    formula: str,
    table: Any,
    family: Family | None,
    priors: Mapping[str, Sequence[Any]] | None,
    weights: Any,
    nodes: int | None,
    base: str | None,
    functions: Functions | None,
) -> Glmm:
    """`glmm` of a table in memory; equal arguments give the object made before."""
    typed = formulas.table_at(formula, table, functions, family)
    law = LAWS[family or formulas.usual_family(formula, typed, functions)]
    require(base is None or law.named, "base", 'None, but for family "categorical"', repr(base))
    design = formulas.read(formula, typed, law, base, functions)
    require(design.observed is not None, "formula", "response ~ terms", repr(formula))
    _check_names(design)
    _check(design.y, design.trials, law, design.response)
    weights = _weights(weights, typed, len(design.y))
    _check_size(design)
    several = len(design.factors) > 1
    nodes = (1 if several else _nodes(design, weights)) if nodes is None else nodes
    require_integers(nodes=nodes)
    require(nodes == 1 or not several, "nodes", "none where there are several grouping factors", nodes)
    known = changed(weak(design, law, weights), priors)
    form = form_of(design, law, known, weights, nodes)
    if law.of_location:
        _check_errors(design, weights)
    made = density(
        form.variables(), log_prior=Of(form, "log_prior"), log_lik=Of(form, "log_lik"), derived=Of(form, "named")
    )
    parts = {field.name: getattr(made, field.name) for field in dataclasses.fields(Model)}
    rows = _rows(design, law, form, weights)
    data = _data(rows, law, [len(factor.levels) for factor in design.factors])
    parts["form"] = dataclasses.replace(made.form, given=data)
    found = Glmm(**parts, design=design, priors=known, data=data, density_form=form, weights=weights)
    generative = responses(form, design, rows, data)
    own = answers(generative, predict=found.predict, beside=found.group_effects, schema=design.schema)
    object.__setattr__(found, "queries", {**found.queries, **own})
    return found


@dataclasses.dataclass(frozen=True)
class Of:
    """A function of a form; equal ones are equal, so that what is compiled for one serves the other."""

    form: Form
    name: str

    def __call__(self, *given: Any) -> Any:
        """The function at its arguments."""
        return getattr(self.form, self.name)(*given)


def _check_names(design: formulas.Design) -> None:
    """Raises ValueError where two coefficients have one name: levels with commas and brackets can read alike."""
    names = design.coefficients
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    got = f"several called {twice[0]!r}" if twice else ""
    remedy = "Levels with commas, colons or brackets can read alike: rename them."
    require(not twice, "table", "coefficients of distinct names", got, remedy)


def _check(y: np.ndarray, trials: np.ndarray, law: Law, response: str) -> None:
    """Raises ValueError on responses that the law does not have."""
    bad = np.flatnonzero(~np.broadcast_to(np.isfinite(y) & law.allows(y, trials), y.shape))
    got = f"{y[bad[0]]:g} in row {bad[0]}, counted from 0 ({len(bad)} such)" if len(bad) else ""
    require(not len(bad), "family", f'{law.expected} for "{law.name}"', got, f"The response is {response}.")
    counted = law.name == "binomial" or np.all(trials == 1)
    require(counted, "family", '"binomial" for successes among trials', repr(law.name))


def _check_errors(design: formulas.Design, weights: np.ndarray) -> None:
    """Raises ValueError where columns and effects of groups give the response exactly: given the spreads of groups the
    likelihood then grows as sigma^-(N - rank) towards zero, so that the posterior of sigma has no end there. Where the
    rank is N it is proper, by the priors of coefficients and effects.

    Ever more rows of the groups that have the most are looked at: of most tables the first tell that errors are left.
    """
    kept = np.flatnonzero(weights > 0)
    ranks = [np.argsort(np.argsort(-np.bincount(of[kept]), kind="stable"))[of[kept]] for of in design.rows.groups]
    order, size = kept[np.argsort(np.max([np.zeros(len(kept)), *ranks], 0), kind="stable")], SOME
    while (left := _left(design, order[:size]))[0] <= EXACT and size < len(kept):
        size *= 2
    share, rank = left
    expected = f"a response that columns{' and groups' if design.factors else ''} do not give exactly"
    got = f"{design.response}, which they give to {share:.0e} of its size"
    remedy = "No error is left, and sigma would be zero. Leave out the column that the response was made from."
    if design.factors:
        remedy = f"{remedy[:-1]}; where rows of a group repeat one response, keep one of them and leave out the group."
    require(share > EXACT or len(kept) <= rank, "table", expected, got, remedy)


def _left(design: formulas.Design, rows: np.ndarray) -> tuple[float, int]:
    """The share of the response that least squares of some rows leave, and the rank of all columns.
    Effects of the first factor are taken out group by group."""
    columns = [design.rows.x[rows], (design.y - design.rows.offset)[rows, None]]
    for z, groups in zip(design.rows.z[1:], design.rows.groups[1:], strict=True):
        _, place = np.unique(groups[rows], return_inverse=True)
        columns.insert(0, (np.eye(place.max() + 1)[place][..., None] * z[rows, None]).reshape(len(rows), -1))
    table, rank = _unit(np.concatenate(columns, 1)), 0
    for z, groups in zip(design.rows.z[:1], design.rows.groups[:1], strict=True):
        z, order = _unit(z[rows]), np.argsort(groups[rows], kind="stable")
        for own in np.split(order, 1 + np.flatnonzero(np.diff(groups[rows][order]))):
            basis = _basis(z[own])
            table[own] -= basis @ (basis.T @ table[own])
            rank += basis.shape[1]
    x, y = table[:, :-1], table[:, -1]
    basis = _basis(x)
    return float(np.linalg.norm(y - basis @ (basis.T @ y))), rank + basis.shape[1]


def _unit(columns: np.ndarray) -> np.ndarray:
    """Columns of length one, or zero."""
    sizes = np.linalg.norm(columns, axis=0)
    return columns / np.where(sizes > 0, sizes, 1.0)


def _basis(columns: np.ndarray) -> np.ndarray:
    """Orthonormal columns of the same span; what is shorter than `EXACT` is rounding."""
    found, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return found[:, sizes > EXACT]


def _nodes(design: formulas.Design, weights: np.ndarray) -> int:
    """Nodes a dimension for one factor: fewer where groups are large, for integrands are then nearly normal."""
    if not design.factors:
        return 1
    rows = np.quantile(np.bincount(design.rows.groups[0], weights), 0.1)
    most = next(most for least, most in ENOUGH.items() if rows >= least)
    return min(NODES.get(_width(design, design.factors[0]), 1), most)


def _width(design: formulas.Design, factor: Factor) -> int:
    """The number of effects of a group."""
    return len(factor.labels) * (len(design.against) or 1)


def _check_size(design: formulas.Design) -> None:
    """Raises ValueError where effects beside those of the largest factor are too many."""
    sizes = {factor.name: len(factor.levels) * _width(design, factor) for factor in design.factors}
    rest = sum(sizes.values()) - max(sizes.values(), default=0)
    expected = f"at most {MOST_DENSE:,} effects beside those of the largest factor, whose matrix is dense"
    require(rest <= MOST_DENSE, "formula", expected, sizes)


def _weights(weights: Any, table: TypedTable, size: int) -> Float[np.ndarray, " N"]:
    if weights is None:
        return np.ones(size)
    if isinstance(weights, str):
        column = table.column("weights", weights)
        bad = column.not_numbers()
        got = f"{str(column.values[bad[0]])[:40]!r} in {table.row_name(int(bad[0]))}" if len(bad) else ""
        require(not len(bad), "weights", f"numbers in {weights!r}", got)
        weights = column.numbers()
    found = np.asarray(weights, float)
    require(found.shape == (size,), "weights", f"one for each of the {size} rows", f"shape {found.shape}")
    require((found >= 0) & np.isfinite(found), "weights", "finite numbers that are not negative", found)
    require(found.any(), "weights", "a row of positive weight", "only zeros")
    return found


def _rows(design: formulas.Design, law: Law, form: Form, weights: np.ndarray) -> dict[str, np.ndarray]:
    """The rows of training in units of size one."""
    location, turn = np.array(form.units.location), np.array(form.units.turn).reshape(2 * [len(form.labels)])
    turn = turn[:: form.predictors, :: form.predictors]
    x, offset = (design.rows.x - law.ordered * np.array(form.centre)) @ turn, design.rows.offset
    x = np.where(np.ptp(x, axis=0) < 1e-9 * np.abs(x).max(0, initial=0.0), x[:1], x)  # a constant, without rounding
    z = {f"z{i}": z / np.array(form.effects[i].sizes[: z.shape[1]]) for i, z in enumerate(design.rows.z)}
    y = (design.y - offset - design.rows.x @ location) / form.units.size if law.of_location else design.y
    rows = {"x": x, "y": y, "weight": weights, **(z or {"z0": np.zeros((len(x), 0))})}
    rows |= {"trials": design.trials, "offset": np.zeros(len(x)) if law.of_location else offset}
    return rows | {f"group{i}": groups for i, groups in enumerate(design.rows.groups)}


def _data(rows: dict[str, np.ndarray], law: Law, counts: Sequence[int]) -> dict[str, np.ndarray]:
    """Rows by group, padded with rows of weight zero; of a normal law the triangular factors of the groups' rows. Of
    several factors, with these numbers of groups, all rows as one group, or sums over them."""
    normal = law.name == "gaussian"
    if len(counts) > 1:
        return {name: values[None] for name, values in (sums_of(rows, counts) if normal else rows).items()}
    size = len(rows["y"])
    groups = rows["group0"] if counts else np.zeros(size, int) if normal else np.arange(size)
    left_out = ("group0", "trials", "offset") if normal else ("group0",)
    padded = _by_group({name: values for name, values in rows.items() if name not in left_out}, groups)
    return _factors(padded) if normal else padded


def _by_group(rows: Mapping[str, np.ndarray], groups: np.ndarray) -> dict[str, np.ndarray]:
    counts = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(counts) - counts
    width = sum(int(np.prod(values.shape[1:])) for values in rows.values())
    size = int(counts.max()) * len(counts) * width
    remedy = (
        f"Groups are padded to the largest, of {counts.max():,} rows where the mean is {counts.mean():.0f}: divide it, "
        "or leave small groups out."
    )
    require(size <= MOST_NUMBERS, "table", f"at most {MOST_NUMBERS:,} numbers, padding included", f"{size:,}", remedy)
    place = np.arange(counts.max())
    there = place < counts[:, None]
    at = order[np.where(there, starts[:, None] + place, starts[:, None])]
    padded = {name: values[at] for name, values in rows.items()}
    return padded | {"weight": np.where(there, padded["weight"], 0.0)}


def _factors(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Groups of a normal law, as the triangular factors of their rows: of the same squares, in as many rows as there
    are columns, and without a difference of large numbers."""
    weight = np.sqrt(rows["weight"])[..., None]
    table = np.concatenate([rows["z0"], rows["x"], rows["y"][..., None]], 2) * weight
    if table.shape[1] > table.shape[2]:
        table = np.linalg.qr(table, mode="r")
    d = rows["z0"].shape[2]
    found = {"z0": table[..., :d], "x": table[..., d:-1], "y": table[..., -1]}
    return found | {"offset": np.zeros_like(found["y"]), "count": rows["weight"].sum(1)}


def _plus_products(eta: np.ndarray, x: Float[np.ndarray, "N p"], beta: np.ndarray) -> Float[np.ndarray, "S N C"]:
    """eta and the sum of columns times coefficients, (S, 1 or N, p, C): column by column, since the order in which a
    product of matrices adds depends on the number of rows."""
    for j in range(x.shape[1]):
        eta = eta + x[:, j, None] * beta[:, :, j]
    return eta


def _first(named: Mapping[str, np.ndarray]) -> np.ndarray:
    return next(iter(named.values()))


# --- programs over draws: form -> function ------------------------------------------------------------------------
def _effects(form: Form) -> Callable[..., Any]:
    of_draw = lambda data, values, key: form.effects_of(values, data, key)

    def effects(values: Any, data: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(jax.tree.leaves(values)[0]))
        return jax.lax.map(lambda given: of_draw(data, *given), (values, keys))

    return effects


def _log_lik(form: Form) -> Callable[..., Any]:
    law = LAWS[form.law]
    of_rows = jax.vmap(lambda aux, n, y, eta: law.log_prob(aux, n, y, eta), (None, 0, 0, 0))
    return lambda aux, eta, y, trials: jax.vmap(lambda aux, eta, y: of_rows(aux, trials, y, eta))(aux, eta, y)


def _responses(form: Form) -> Callable[..., Any]:
    """Responses of rows, each by itself: all rows of a draw have one key, so that a row has the same draws alone and
    among others."""
    draw = lambda aux, trials, key, eta: LAWS[form.law].of(aux, trials).sample(key, eta)  # type: ignore[misc]
    of_rows = jax.vmap(draw, (None, 0, None, 0))

    def responses(aux: Any, eta: Any, key: Any, trials: Any) -> Any:
        each = jax.random.split(key, len(eta))
        return jax.vmap(lambda aux, key, eta: of_rows(aux, trials, key, eta))(aux, each, eta)

    return responses
