"""Models of Gaussian predictors, y_n | z_n ~ p(y_n | z_n), z ~ N(0, K): the common base of the GP
and the GLM.

    ELBO(q) = sum_n E_{N(m_n, v_n)}[log p(y_n | z_n)] - KL(q || p)     (Khan et al. 2016, section 3.1, examples 1 and 2)

There is one global, z, whose posterior is prior plus sites (`vijax.sites`): 2N numbers, and the
prior as their context. The bound of a site is a function of the mean and variance of its own
predictor, so that its natural gradient has a closed form, and `mean_field` with the KL update is
proximal-gradient SVI."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import DataForm, Minibatch, weighted_sum
from vijax.contract.intake import Kind, cast, check, found_kinds
from vijax.contract.model import ByEntry, Hyper, LocalElbo, Model
from vijax.contract.queries import answers
from vijax.data.schema.named_columns import Names, in_order_of
from vijax.evaluate.score import HeldOut
from vijax.families import Family, Product
from vijax.families.base import as_array
from vijax.inference import expectation as expectations
from vijax.inference.expectation import Expectation
from vijax.inference.likelihood import Likelihood, Moments
from vijax.inference.sites import Marginals, Prior, SitePosterior, Sites
from vijax.models.regressions.measure import NOISE, Measure
from vijax.models.regressions.predictor_draws import Z, of_predictors
from vijax.tree import to_device
from vijax.xla.compiler import once_jit

LikelihoodOf = Callable[[Hyper, Mapping[str, Any]], Likelihood]
"""(hyper, statistics of the globals beside the predictors) -> p(y | z)."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Predictors(Model):
    """A model of Gaussian predictors, with functions to predict the predictors of new inputs; made
    by `predictors`.

    Attributes:
      likelihood: (hyper, statistics of the other globals) -> p(y | z).
      y: observations, arrays of leading axis N.
      rows: inputs -> arrays, on the host: what `new` reads.
      predicted: (posterior, hyper, rows) -> mean and variance of new predictors; one compiled
          program.
      densities: (posterior, hyper, rows, y) -> p(y | data); one compiled program.
      measure: the place and the unit in which y and z are measured within, where the noise is
          unknown; else None.
    """

    likelihood: LikelihoodOf
    y: Any
    rows: Callable[[Any], Any]
    predicted: Callable[..., tuple[Array, Array]]
    densities: Callable[..., Array]
    measure: Measure | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The data for `vijax.fit`: {"site": 0, ..., N - 1, "y": observations}; where the noise is
        unknown, these are measured from `measure.offset` in units of `measure.unit`."""
        return self.form.given

    @property
    def num_sites(self) -> int:
        """N."""
        return len(self.data["site"])

    def posterior(self, sites: Any = None, hyper: Hyper | None = None) -> SitePosterior:
        """q(z) of the N predictors by its sites; without sites the prior."""
        prior, hyper = self.by_entry.context(self._hyper(hyper))[Z]  # type: ignore[union-attr]
        zeros = SitePosterior.zeros(prior.num_sites, _dtype(prior), prior).with_context(
            (prior, hyper)
        )
        return zeros if sites is None else zeros.with_naturals([sites.linear, sites.precision])

    def elbo(
        self,
        posterior: Any,
        hyper: Hyper | None = None,
        *,
        expectation: Expectation | None = None,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, ""]:
        """The bound on log p(y), differentiable in the posterior and in the hyperparameters.

        Args:
          posterior: posterior of a fit, `fit.posterior`.
          hyper: other hyperparameters than it was fitted with: its sites are then put on their
            prior. At the optimum of the sites the gradient in them is that of the optimised bound.
          expectation: expectation of the likelihood; the model's own if None.
          key: random key of the expectation's draws, if it draws.
        """
        q, hyper = self._of(posterior, hyper)
        moments = self._moments(q.marginals(), posterior, hyper, expectation, key)
        others = self._penalty_of_others(posterior, hyper)
        return jnp.sum(moments.value) - q.kl_to_prior(q.flat()) - others

    def predict(
        self, posterior: Any, inputs: Any, hyper: Hyper | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of the predictors z* of new inputs, (T,) each.

        Args:
          posterior: posterior of a fit, `fit.posterior`.
          inputs: T new inputs.
          hyper: other hyperparameters than it was fitted with, on whose prior its sites are then
              put.
        """
        found = self.predicted(*self._of(posterior, hyper), self.rows(inputs))
        return found if self.measure is None else self.measure.outward(inputs, *found)

    def law(self, posterior: Any, hyper: Hyper | None = None) -> Likelihood:
        """p(y | z) as it was learnt, y and z in their own units: for `vijax.models.response`, say.

        Args:
          posterior: posterior of a fit, `fit.posterior`. Of the precision of unknown noise,
              "noise", its mean counts.
          hyper: other hyperparameters than it was fitted with.
        """
        _, hyper = self._of(posterior, hyper)
        means = _means_of_others(posterior)
        if self.measure is None:
            return self.likelihood(hyper, means)
        return self.measure.noise.law(means[NOISE], 1.0)

    def predictive(
        self, posterior: Any, inputs: Any, y: Any, hyper: Hyper | None = None
    ) -> Float[Array, " new"]:
        """p(y* | data) = E_q[p(y* | z*)], by quadrature: for y = 1 throughout, the probability of
        the class +1.

        Args:
          posterior: posterior of a fit, `fit.posterior`.
          inputs: T new inputs.
          y: observations, (T,) or one for all.
          hyper: other hyperparameters than it was fitted with, on whose prior its sites are then
              put.
        """
        q, hyper = self._of(posterior, hyper)
        y = y if self.measure is None else self.measure.inward(inputs, y)
        y, _ = observations(self.likelihood(hyper, _means_of_others(posterior)), y)
        return self.densities({**_others(posterior), Z: q}, hyper, self.rows(inputs), y)

    def _of(self, posterior: Any, hyper: Hyper | None) -> tuple[SitePosterior, Hyper]:
        """The sites' posterior, from a `Product` or alone, and the hyperparameters of its prior:
        the given ones, else the ones that it was fitted with, else (for bare `Sites`) the model's
        own."""
        q = posterior[Z] if isinstance(posterior, Mapping) else posterior
        known = isinstance(q, SitePosterior | Sites)
        require(known, "posterior", "fit.posterior, or its sites", type(posterior).__name__)
        if hyper is None and isinstance(q, SitePosterior) and q.prior is not None:
            return q, self._hyper(q.hyper)
        return self.posterior(q, hyper), self._hyper(hyper)

    def _moments(
        self, at: Marginals, posterior: Any, hyper: Any, expectation: Any, key: Any
    ) -> Moments:
        lik = self.likelihood(self._hyper(hyper), stats_of(_others(posterior)))
        return (expectation or self.estep)(lik, self.y, *at, key)

    def _penalty_of_others(self, posterior: Any, hyper: Hyper | None) -> Float[Array, ""] | float:
        others = _others(posterior)
        prior = self.prior(self._hyper(hyper)) if others else {}
        return sum(jnp.sum(q.kl(prior[name])) for name, q in others.items()) if others else 0.0

    def _hyper(self, hyper: Hyper | None) -> Hyper:
        chosen = self.hyper if hyper is None else hyper
        return tree.as_arrays(chosen)


def predictors(
    prior: Callable[[Hyper], Prior],
    likelihood: LikelihoodOf,
    y: Any,
    rows: Callable[[Any], Any],
    new: Callable[[Hyper, Any], tuple[Any, Array]],
    expectation: Expectation,
    hyper: Hyper | None = None,
    others: Mapping[str, Family] | None = None,
    own: Callable[[Hyper, Any], Array] | None = None,
    measure: Measure | None = None,
    columns: Names | None = None,
) -> Predictors:
    """A model of Gaussian predictors.

    Args:
      prior: hyper -> p(z) of the N predictors, in one of the forms of `vijax.sites`.
      likelihood: (hyper, statistics of the other globals by name) -> p(y | z).
      y: observations, arrays of leading axis N.
      rows: new inputs -> arrays, on the host; inputs may be of any kind, such as sparse matrices.
      new: (hyper, rows) -> the argument of `Prior.predict` for new inputs, and the variance that no
        feature explains. It is traced.
      expectation: E_q[log p(y | z)] (`vijax.expectation`).
      hyper: positive hyperparameters by name.
      others: priors of further globals, whose statistics the likelihood reads (the rate of wrong
          labels, say).
      own: (hyper, inputs) -> prior covariance of new predictors, where features do not explain all
          of it.
      measure: the measure of y, which is measured by it already; None where y is taken as it is.
      columns: names of the columns of the inputs, where these are a table: new tables are read by
          them.
    """
    values = dict(hyper or {})
    if columns is not None:
        rows, own, measure = _by_name(columns, rows, own, measure)
    num_sites = int(np.shape(jax.tree.leaves(y)[0])[0])
    dtype = _dtype(jax.eval_shape(prior, values))
    own_likelihood = likelihood(values, stats_of(others or {}))
    predicted = once_jit(_predicted_by(new), _work_of_prediction)
    densities = once_jit(_densities_by(likelihood, new), _work_of_prediction)
    y, kinds = observations(own_likelihood, y)
    draws = own_likelihood.sample is not None
    none = to_device(np.zeros(num_sites, dtype))  # compiles no program
    start = Product({Z: SitePosterior(none, none, None), **(others or {})})  # type: ignore[arg-type]
    return Predictors(
        hyper=values,
        prior=lambda hyper: start,
        local_elbo=_bound(likelihood),
        init=lambda hyper, key, prior, batch: prior,
        estep=expectation,
        needs_prior=(Z,),
        by_entry=ByEntry(
            lambda hyper: {Z: (prior(hyper), hyper)},
            _reads(num_sites, None if measure is None else np.asarray(y)),
        ),
        form=DataForm(
            kinds={"site": "index", "y": kinds},
            given={"site": np.arange(num_sites, dtype=np.int32), "y": y},
        ),
        queries=answers(
            of_predictors(likelihood, rows, new, own, others or {}, draws, measure),
            score=_score(likelihood, rows, densities, measure),
            predict=_predict(rows, predicted, measure),
        ),
        likelihood=likelihood,
        y=y,
        rows=rows,
        predicted=predicted,
        densities=densities,
        measure=measure,
    )


def _by_name(
    columns: Names, rows: Callable, own: Callable | None, measure: Measure | None
) -> tuple[Any, Any, Any]:
    """The functions that read new inputs, with the columns of a table in the order of training."""
    named = lambda inputs: in_order_of(columns, inputs, "inputs")
    rows_named = lambda inputs: rows(named(inputs))
    own_named = None if own is None else lambda hyper, inputs: own(hyper, named(inputs))
    if measure is not None:
        offset = measure.offset
        measure = dataclasses.replace(measure, offset=lambda inputs: offset(named(inputs)))
    return rows_named, own_named, measure


def observations(likelihood: Likelihood, y: Any) -> tuple[Any, Any]:
    """Observations, a single one or an array, in the types that the likelihood reads, and their
    kinds (`vijax.contract.intake`).

    Raises:
      ValueError: numbers that do not fit into them.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(as_array, y))
    one = [jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(x)) for x in leaves]
    read = lambda y: likelihood.log_prob(y, jnp.zeros(()))
    kinds: list[Kind] = found_kinds(jax.tree.unflatten(structure, one), read)
    check(kinds, y, "y")
    return jax.tree.map(to_device, cast(kinds, y)), jax.tree.unflatten(structure, kinds)


def _bound(likelihood: LikelihoodOf) -> Callable[..., LocalElbo]:
    def local_elbo(
        hyper: Hyper,
        stats: Mapping[str, Any],
        batch: Minibatch,
        key: PRNGKeyArray,
        expectation: Expectation,
    ) -> LocalElbo:
        """sum_n E l_n, with slope and curvature in m as the expectation gives them: for one that
        draws they are not the derivatives of its value. A site whose message is not finite is
        reported as NaN."""
        at: Marginals = stats[Z]
        others = {name: s for name, s in stats.items() if name != Z}
        moments = expectation(
            likelihood(hyper, others), batch.data["y"], *jax.lax.stop_gradient(at), key
        )
        each = _differentiated(moments, at)
        weights = (
            jnp.ones_like(each) if batch.weights is None else jnp.asarray(batch.weights, each.dtype)
        )
        known = jnp.isfinite(moments.slope) & jnp.isfinite(moments.curvature)
        per_group = jax.lax.stop_gradient(jnp.where(known, each, jnp.nan))
        return LocalElbo(weighted_sum(weights, each), jnp.sum(weights), per_group, None)

    return local_elbo


@jax.custom_jvp
def _differentiated(moments: Moments, at: Marginals) -> Float[Array, " batch"]:
    """E l, whose derivatives in m and v are E l' and E l'' / 2 as the moments have them."""
    del at
    return moments.value


@_differentiated.defjvp
def _differentiated_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    moments, change, shift = primals[0], *tangents
    slope, curvature = moments.slope, moments.curvature
    return moments.value, change.value + slope * shift.mean + 0.5 * curvature * shift.variance


def _reads(num_sites: int, measured: np.ndarray | None) -> Callable[[Minibatch], dict[str, Array]]:
    def reads(batch: Minibatch) -> dict[str, Array]:
        """The sites of a batch, checked as far as shapes and values allow."""
        data, expected = batch.data, "{'site': rows, 'y': observations}, as model.data is"
        require(
            isinstance(data, dict) and set(data) == {"site", "y"},
            "batch",
            expected,
            type(data).__name__,
        )
        rows = data["site"]
        require(jnp.shape(rows)[0] > 0, "batch", "at least one site", jnp.shape(rows)[0])
        if not isinstance(rows, jax.core.Tracer):
            inside = (np.asarray(rows) >= 0) & (np.asarray(rows) < num_sites)
            require(inside, "batch", f"sites from 0 to {num_sites - 1}", rows)
            _check_measured(measured, rows, data["y"])
        if batch.num_groups is not None and not isinstance(batch.num_groups, jax.core.Tracer):
            same = int(batch.num_groups) == num_sites
            require(same, "batch.num_groups", f"N = {num_sites} sites", batch.num_groups)
        return {Z: jnp.asarray(rows)}

    return reads


def _check_measured(measured: np.ndarray | None, rows: Any, y: Any) -> None:
    """Raises ValueError where the observations of these sites are not those that were measured."""
    if measured is None or isinstance(y, jax.core.Tracer):
        return
    remedy = (
        "They are measured by the model. For other observations make another model; or give the "
        "noise a number."
    )
    same = np.array_equal(measured[np.asarray(rows)], np.asarray(y))
    require(same, "data", "the observations of model.data, for noise is unknown", "others", remedy)


def _predict(
    rows: Callable, predicted: Callable, measure: Measure | None
) -> Callable[..., tuple[Any, Any]]:
    def predict(fit: Any, inputs: Any) -> tuple[Any, Any]:
        """Mean and variance of the predictors of new inputs."""
        q = fit.posterior[Z]
        found = predicted(q, tree.as_arrays(q.hyper), rows(inputs))
        return found if measure is None else measure.outward(inputs, *found)

    return predict


def _score(
    likelihood: Callable, rows: Callable, densities: Callable, measure: Measure | None
) -> Callable[..., HeldOut]:
    def score(hyper: Hyper, estimates: Mapping[str, Any], data: Any, key: PRNGKeyArray) -> HeldOut:
        """Log predictive density of new observations, data = (inputs, y)."""
        del key
        pair = isinstance(data, tuple | list) and len(data) == 2
        require(
            pair,
            "data",
            "a pair (inputs, y) of new inputs and their observations",
            type(data).__name__,
        )
        y = data[1] if measure is None else measure.inward(*data)
        y, _ = observations(likelihood(hyper, _means_of_others(estimates)), y)
        found = densities(dict(estimates), hyper, rows(data[0]), y)
        return HeldOut.of(np.log(np.maximum(np.asarray(found, np.float64), 1e-300)))

    return score


def _predicted_by(new: Callable) -> Callable[..., tuple[Array, Array]]:
    def predicted(q: SitePosterior, hyper: Hyper, rows: Any) -> tuple[Array, Array]:
        """Mean and variance of new predictors."""
        at, unexplained = new(hyper, rows)
        mean, variance = q.prior.predict(q.condition(), at)
        return mean, variance + unexplained

    return predicted


def _densities_by(likelihood: LikelihoodOf, new: Callable) -> Callable[..., Array]:
    predicted = _predicted_by(new)

    def densities(
        posterior: Mapping[str, Any], hyper: Hyper, rows: Any, y: Any
    ) -> Float[Array, " new"]:
        """p(y* | data), in closed form or by quadrature."""
        lik = likelihood(hyper, _means_of_others(posterior))
        mean, variance = predicted(posterior[Z], hyper, rows)
        y = jnp.broadcast_to(y, mean.shape)
        if lik.density is not None:
            return jax.vmap(lik.density)(y, mean, variance)
        return expectations.expect(lambda y, z: jnp.exp(lik.log_prob(y, z)), lik, y, mean, variance)

    return densities


def _work_of_prediction(posterior: Any, hyper: Hyper, rows: Any, *y: Any) -> int:
    """About N times the number of new inputs."""
    del hyper, y
    q = posterior if isinstance(posterior, SitePosterior) else posterior[Z]
    return len(q.linear) * max((np.shape(x)[0] for x in jax.tree.leaves(rows)), default=1)


def _others(posterior: Any) -> dict[str, Family]:
    """The other globals of a posterior."""
    return (
        {name: q for name, q in posterior.items() if name != Z}
        if isinstance(posterior, Mapping)
        else {}
    )


def stats_of(others: Mapping[str, Family]) -> dict[str, Any]:
    """The statistics of the other globals that the bound reads."""
    return {name: q.expected_stats() for name, q in others.items()}


def _means_of_others(posterior: Any) -> dict[str, Any]:
    """Statistics of the other globals for predictions: exact for a density linear in them, as with
    wrong labels."""
    return {name: q.stats(q.mean()) for name, q in _others(posterior).items()}


def of_others(likelihood: Any) -> LikelihoodOf:
    """Raises ValueError where the likelihood is no function of hyperparameters and statistics."""
    remedy = (
        "Such as: lambda hyper, s: vijax.likelihood.noisy_labels(s['flip']), with others={'flip': "
        "a Beta}."
    )
    fits = callable(likelihood) and not isinstance(likelihood, Likelihood)
    require(
        fits,
        "likelihood",
        "a function (hyper, statistics) with others",
        type(likelihood).__name__,
        remedy,
    )
    return likelihood


def _dtype(prior: Any) -> Any:
    return jnp.result_type(
        jax.tree.leaves(prior)[-1]
    )  # in every form an array of floats comes last


def check_observations(y: Any, num_inputs: int, likelihood: Likelihood) -> None:
    """Raises ValueError unless each input has one observation, inside the likelihood's support."""
    lengths = {int(np.shape(leaf)[0]) if np.ndim(leaf) else 0 for leaf in jax.tree.leaves(y)}
    require(
        lengths == {num_inputs},
        "y",
        f"one observation for each of the {num_inputs} inputs",
        sorted(lengths),
    )
    require(num_inputs > 0, "x", "at least one input", num_inputs)
    likelihood.check(y)
