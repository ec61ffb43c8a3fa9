"""Models of Gaussian predictors, y_n | z_n ~ p(y_n | z_n), z ~ N(0, K): the common base of the GP
and the GLM.

    ELBO(q) = sum_n E_{N(m_n, v_n)}[log p(y_n | z_n)] - KL(q || p)     (Khan et al. 2016, section 3.1, examples 1 and 2)

There is one global, z, whose posterior is prior plus sites (`vijax.sites`): 2N numbers, with the
prior as context. The bound of a site is a function of the mean and variance of its predictor, so
that its natural gradient has a closed form, and `mean_field` with the KL update is
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
from vijax.contract.intake import Kind, cast, check, trace_kinds
from vijax.contract.model import ByEntry, Hyper, LocalElbo, Model
from vijax.contract.queries import answers
from vijax.data.schema.named_columns import Names, order_by_names
from vijax.evaluate.score import HeldOut
from vijax.families import Family, Product
from vijax.families.base import as_array
from vijax.inference import expectation as expectations
from vijax.inference.expectation import Expectation
from vijax.inference.likelihood import Likelihood, Moments
from vijax.inference.sites import Marginals, Prior, SitePosterior, Sites
from vijax.models.regressions.measure import NOISE, Measure
from vijax.models.regressions.predictor_draws import Z, predictor_generative
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
      rows: inputs -> arrays on the host, which `new` reads.
      predicted: (posterior, hyper, rows) -> mean and variance of new predictors; one compiled
          program.
      densities: (posterior, hyper, rows, y) -> p(y | data); one compiled program.
      measure: the location and the unit of y and z inside the model, if the noise is unknown; else
          None.
    """

    likelihood: LikelihoodOf
    y: Any
    rows: Callable[[Any], Any]
    predicted: Callable[..., tuple[Array, Array]]
    densities: Callable[..., Array]
    measure: Measure | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The data for `vijax.fit`: {"site": 0, ..., N - 1, "y": observations}. If the noise is
        unknown, y is measured from `measure.offset` in units of `measure.unit`."""
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
        if sites is None:
            return zeros
        return zeros.with_naturals([sites.linear, sites.precision])

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
          hyper: other hyperparameters than those of the fit: its sites are combined with their
            prior. At the optimum of the sites the gradient in `hyper` is that of the optimised
            bound.
          expectation: expectation of the likelihood; None takes that of the model.
          key: random key of the expectation's draws, if it draws.
        """
        q, hyper = self._sites_and_hyper(posterior, hyper)
        moments = self._moments(q.marginals(), posterior, hyper, expectation, key)
        penalty = self._penalty_of_others(posterior, hyper)
        return jnp.sum(moments.value) - q.kl_to_prior(q.flat()) - penalty

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
        moments = self.predicted(*self._sites_and_hyper(posterior, hyper), self.rows(inputs))
        if self.measure is None:
            return moments
        return self.measure.outward(inputs, *moments)

    def law(self, posterior: Any, hyper: Hyper | None = None) -> Likelihood:
        """The learnt p(y | z), in units of y; for `vijax.models.response`, say.

        Args:
          posterior: posterior of a fit, `fit.posterior`. Unknown noise has its mean precision.
          hyper: other hyperparameters than those of the fit.
        """
        _, hyper = self._sites_and_hyper(posterior, hyper)
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
        q, hyper = self._sites_and_hyper(posterior, hyper)
        if self.measure is not None:
            y = self.measure.inward(inputs, y)
        y, _ = observations(self.likelihood(hyper, _means_of_others(posterior)), y)
        return self.densities({**_others(posterior), Z: q}, hyper, self.rows(inputs), y)

    def _sites_and_hyper(self, posterior: Any, hyper: Hyper | None) -> tuple[SitePosterior, Hyper]:
        """The posterior of the sites, from a `Product` or alone, and the hyperparameters of its
        prior: `hyper`, else those of the fit, else (for bare `Sites`) those of the model."""
        q = posterior[Z] if isinstance(posterior, Mapping) else posterior
        is_sites = isinstance(q, SitePosterior | Sites)
        require(is_sites, "posterior", "fit.posterior, or its sites", type(posterior).__name__)
        if hyper is None and isinstance(q, SitePosterior) and q.prior is not None:
            return q, self._hyper(q.hyper)
        return self.posterior(q, hyper), self._hyper(hyper)

    def _moments(
        self, at: Marginals, posterior: Any, hyper: Any, expectation: Any, key: Any
    ) -> Moments:
        lik = self.likelihood(self._hyper(hyper), expected_stats(_others(posterior)))
        return (expectation or self.estep)(lik, self.y, *at, key)

    def _penalty_of_others(self, posterior: Any, hyper: Hyper | None) -> Float[Array, ""] | float:
        families = _others(posterior)
        prior = self.prior(self._hyper(hyper)) if families else {}
        if families:
            return sum(jnp.sum(q.kl(prior[name])) for name, q in families.items())
        return 0.0

    def _hyper(self, hyper: Hyper | None) -> Hyper:
        values = self.hyper if hyper is None else hyper
        return tree.as_arrays(values)


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
      own: (hyper, inputs) -> prior covariance of new predictors, if features do not explain all of
          it.
      measure: the measure of y, which is already applied to y; None if y is taken as it is.
      columns: names of the columns of the inputs, if these are a table: new tables are read by
          them.
    """
    values = dict(hyper or {})
    if columns is not None:
        rows, own, measure = _align_tables(columns, rows, own, measure)
    num_sites = int(np.shape(jax.tree.leaves(y)[0])[0])
    dtype = _dtype(jax.eval_shape(prior, values))
    own_likelihood = likelihood(values, expected_stats(others or {}))
    predicted = once_jit(_predictor_moments(new), _work_of_prediction)
    densities = once_jit(_make_densities(likelihood, new), _work_of_prediction)
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
            predictor_generative(likelihood, rows, new, own, others or {}, draws, measure),
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


def _align_tables(
    columns: Names, rows: Callable, own: Callable | None, measure: Measure | None
) -> tuple[Any, Any, Any]:
    """The functions that read new inputs, with the columns of a table in the order of training."""
    align = lambda inputs: order_by_names(columns, inputs, "inputs")
    aligned_rows = lambda inputs: rows(align(inputs))
    aligned_own = None if own is None else lambda hyper, inputs: own(hyper, align(inputs))
    if measure is not None:
        offset = measure.offset
        measure = dataclasses.replace(measure, offset=lambda inputs: offset(align(inputs)))
    return aligned_rows, aligned_own, measure


def observations(likelihood: Likelihood, y: Any) -> tuple[Any, Any]:
    """Observations, a single one or an array, in the types that the likelihood reads, and their
    kinds (`vijax.contract.intake`).

    Raises:
      ValueError: numbers that do not fit into them.
    """
    leaves, structure = jax.tree.flatten(jax.tree.map(as_array, y))
    shapes_of_one = [jax.ShapeDtypeStruct(np.shape(x)[1:], jnp.result_type(x)) for x in leaves]
    read = lambda y: likelihood.log_prob(y, jnp.zeros(()))
    kinds: list[Kind] = trace_kinds(jax.tree.unflatten(structure, shapes_of_one), read)
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
        """sum_n E l_n, with slope and curvature in m from the expectation: if it draws, they are
        not the derivatives of its value. A site whose message is not finite is NaN in
        `per_group`."""
        at: Marginals = stats[Z]
        other_stats = {name: s for name, s in stats.items() if name != Z}
        moments = expectation(
            likelihood(hyper, other_stats), batch.data["y"], *jax.lax.stop_gradient(at), key
        )
        log_liks = _value_with_slopes(moments, at)
        weights = jnp.ones_like(log_liks)
        if batch.weights is not None:
            weights = jnp.asarray(batch.weights, log_liks.dtype)
        is_finite = jnp.isfinite(moments.slope) & jnp.isfinite(moments.curvature)
        per_group = jax.lax.stop_gradient(jnp.where(is_finite, log_liks, jnp.nan))
        return LocalElbo(weighted_sum(weights, log_liks), jnp.sum(weights), per_group, None)

    return local_elbo


@jax.custom_jvp
def _value_with_slopes(moments: Moments, at: Marginals) -> Float[Array, " batch"]:
    """E l, with the derivatives E l' in m and E l'' / 2 in v from the moments."""
    del at
    return moments.value


@_value_with_slopes.defjvp
def _value_with_slopes_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    moments, change, shift = primals[0], *tangents
    slope, curvature = moments.slope, moments.curvature
    return moments.value, change.value + slope * shift.mean + 0.5 * curvature * shift.variance


def _reads(num_sites: int, measured: np.ndarray | None) -> Callable[[Minibatch], dict[str, Array]]:
    def reads(batch: Minibatch) -> dict[str, Array]:
        """The sites of a batch; ValueError for wrong shapes, and for wrong values unless traced."""
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
            is_site = (np.asarray(rows) >= 0) & (np.asarray(rows) < num_sites)
            require(is_site, "batch", f"sites from 0 to {num_sites - 1}", rows)
            _check_same_observations(measured, rows, data["y"])
        if batch.num_groups is not None and not isinstance(batch.num_groups, jax.core.Tracer):
            is_all = int(batch.num_groups) == num_sites
            require(is_all, "batch.num_groups", f"N = {num_sites} sites", batch.num_groups)
        return {Z: jnp.asarray(rows)}

    return reads


def _check_same_observations(measured: np.ndarray | None, rows: Any, y: Any) -> None:
    """Raises ValueError if the observations of these sites are not those of the model."""
    if measured is None or isinstance(y, jax.core.Tracer):
        return
    remedy = (
        "They are measured by the model. For other observations make another model; or give the "
        "noise a number."
    )
    is_same = np.array_equal(measured[np.asarray(rows)], np.asarray(y))
    require(
        is_same, "data", "the observations of model.data, for noise is unknown", "others", remedy
    )


def _predict(
    rows: Callable, predicted: Callable, measure: Measure | None
) -> Callable[..., tuple[Any, Any]]:
    def predict(fit: Any, inputs: Any) -> tuple[Any, Any]:
        """Mean and variance of the predictors of new inputs."""
        q = fit.posterior[Z]
        moments = predicted(q, tree.as_arrays(q.hyper), rows(inputs))
        if measure is None:
            return moments
        return measure.outward(inputs, *moments)

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
        values = densities(dict(estimates), hyper, rows(data[0]), y)
        return HeldOut.of(np.log(np.maximum(np.asarray(values, np.float64), 1e-300)))

    return score


def _predictor_moments(new: Callable) -> Callable[..., tuple[Array, Array]]:
    def moments(q: SitePosterior, hyper: Hyper, rows: Any) -> tuple[Array, Array]:
        """Mean and variance of new predictors."""
        at, unexplained = new(hyper, rows)
        mean, variance = q.prior.predict(q.condition(), at)
        return mean, variance + unexplained

    return moments


def _make_densities(likelihood: LikelihoodOf, new: Callable) -> Callable[..., Array]:
    moments = _predictor_moments(new)

    def densities(
        posterior: Mapping[str, Any], hyper: Hyper, rows: Any, y: Any
    ) -> Float[Array, " new"]:
        """p(y* | data), in closed form or by quadrature."""
        lik = likelihood(hyper, _means_of_others(posterior))
        mean, variance = moments(posterior[Z], hyper, rows)
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
    if isinstance(posterior, Mapping):
        return {name: q for name, q in posterior.items() if name != Z}
    return {}


def expected_stats(others: Mapping[str, Family]) -> dict[str, Any]:
    """The statistics of the other globals that the bound reads."""
    return {name: q.expected_stats() for name, q in others.items()}


def _means_of_others(posterior: Any) -> dict[str, Any]:
    """Statistics of the other globals at their means, for predictions: exact for a density that is
    linear in them, as with wrong labels."""
    return {name: q.stats(q.mean()) for name, q in _others(posterior).items()}


def require_function(likelihood: Any) -> LikelihoodOf:
    """The likelihood; ValueError unless it is a function of hyperparameters and statistics."""
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
    # In every form an array of floats comes last.
    return jnp.result_type(jax.tree.leaves(prior)[-1])


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
