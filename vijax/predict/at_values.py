"""A model at given values of its globals, before, after or without any fit: log likelihood, locals,
log prior."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Documents, Minibatch
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, LocalElbo, Model
from vijax.families import Beta, Dirichlet, Family, Product
from vijax.families.base import as_floats
from vijax.families.product import unknown_name
from vijax.xla.compiler import cached_program, step_jit

SUPPORTS = {"Dirichlet": "not negative and of sum 1", "Beta": "from 0 to 1", "Gamma": "positive"}


@dataclasses.dataclass(frozen=True)
class At:
    """A model with hyperparameters, values of its globals by name, and an E-step; see `at`."""

    model: Model
    hyper: Hyper
    parameters: Mapping[str, Any]
    estep: Any

    def log_likelihood(self, data: Any, *, key: PRNGKeyArray) -> Float[Array, ""]:
        """log p(data | parameters), the locals summed or integrated out, in nats: exact where the
        E-step is (no two locals of a group depend on each other), else a lower bound; under an
        E-step that draws an estimate of one. Differentiable in the parameters and the
        hyperparameters.

        Args:
          data: as `vijax.fit` takes it: arrays with one leading axis of groups, a `Minibatch`, or
              documents.
          key: random key of the E-step's draws, where it samples.
        """
        return self._said(self._batch(data)[0], key).total

    def per_group(self, data: Any, *, key: PRNGKeyArray) -> Float[Array, " groups"]:
        """The log likelihood of each group, in the order of the data; constants, which are not
        differentiated."""
        batch, order = self._batch(data)
        bounds = self._said(batch, key).per_group
        if order is None:
            return bounds
        from vijax.data import in_order

        return jnp.asarray(in_order(np.concatenate([np.asarray(bound) for bound in bounds]), order))

    def locals(self, data: Any, *, key: PRNGKeyArray) -> PyTree:
        """The locals. A model made by `energy_model` gives the posterior of each by name, one for
        each group (the mean-field factors, where locals are coupled)."""
        return self._said(self._batch(data)[0], key).local

    def log_prior(self) -> Float[Array, ""]:
        """log p(parameters), in nats, with the terms that couple the globals of a hierarchy.
        Differentiable too."""
        prior = self.model.prior(self.hyper)
        coupling = self.model.global_elbo
        own = prior.log_prob(self.parameters)
        return own if coupling is None else own + coupling(self.hyper, prior.stats(self.parameters))

    def _said(self, batch: Minibatch, key: PRNGKeyArray) -> LocalElbo:
        def bind(of: weakref.ref[Model]) -> Callable[..., LocalElbo]:
            def said(estep, hyper, parameters, batch, key):
                model = of()
                return model.local_elbo(
                    hyper, model.prior(hyper).stats(parameters), batch, key, estep
                )

            return step_jit(said, static_argnums=(0,))

        return cached_program(self.model, "at", bind)(
            self.estep, self.hyper, dict(self.parameters), batch, key
        )

    def _batch(self, data: Any) -> tuple[Minibatch, Any]:
        """Data as one batch, and the rows of documents, which are sorted by length."""
        if isinstance(data, Minibatch):
            return data._replace(data=cast_data(self.model, data.data), num_groups=None), None
        batched = isinstance(data, tuple) and all(isinstance(x, Documents) for x in data)
        if self.model.form.documents is not None and not batched:
            from vijax.data import full_batch, read

            batch, rows = full_batch(read(data))
            return batch._replace(num_groups=None), rows
        if self.model.form.check is not None and not _traced(data):
            self.model.form.check(data)
        return Minibatch(cast_data(self.model, data), None), None


def at(
    model: Model,
    parameters: Mapping[str, Any],
    hyper: Mapping[str, Any] | None = None,
    estep: Any = None,
) -> At:
    """A model at given values of its globals: its log likelihood there, of each group too, and the
    locals.

    Nothing is fitted, so that what other programs found can be judged by the model, or a likelihood
    handed to an optimiser or sampler of one's own: it works under `jax.jit` and `jax.grad`.

    Args:
      model: any `vijax.Model` whose globals have densities of their own: ready, an energy, or with
        a bound of its own; not a Gaussian process or GLM, whose predictors have their prior for a
        base measure.
      parameters: a value for each global by name, in the shape of its draws
        (`model.prior(model.hyper).sample(key)` shows one), such as `fit.posterior.mean()`. Values
        that are tuples (a mean and a precision) may be given as tuples or mappings.
      hyper: hyperparameters that replace the model's, such as those of a fit (`fit.state.hyper`).
      estep: the E-step, which finds the locals; the model's own by default.

    Returns:
      `At`: `.log_likelihood(data, key=key)`, `.per_group(...)`, `.locals(...)`, `.log_prior()`.

    Raises:
      ValueError: a name that is missing or unknown, a value of another shape, not finite or outside
          of the support.
      TypeError: `model` is no `vijax.Model`.

    >>> import jax, jax.numpy as jnp, vijax as vi
    >>> model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    >>> point = {"weights": jnp.array([0.25, 0.75]), "components": jnp.array([[-1.0], [2.0]])}
    >>> there, key = vi.at(model, point), jax.random.key(0)
    >>> y = jnp.array([[0.0], [2.0]])
    >>> print(*(f"{x:.3f}" for x in there.per_group(y, key=key)))
    -2.293 -1.203
    >>> print(*(f"{x:.3f}" for x in there.locals(y, key=key)["z"].probs[0]))
    0.599 0.401
    """
    if not isinstance(model, Model):
        raise TypeError(f"model: expected a vijax.Model, got {type(model).__name__}.")
    remedy = (
        "Of a GP or GLM, one observation: model.likelihood(hyper, statistics of "
        "others).log_prob(y, z)."
    )
    require(
        model.by_entry is None,
        "model",
        "a model whose globals have densities of their own",
        "sites",
        remedy,
    )
    settings = {**model.hyper, **(hyper or {})}
    for name in settings:
        require(name in model.hyper, "hyper", f"names among {list(model.hyper)}", name)
    settings = tree.as_arrays(settings)
    values = _checked(model.prior(settings), parameters)
    return At(model, settings, values, model.estep if estep is None else estep)


def _checked(prior: Product, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values, in the structure and precision of draws."""
    require(
        isinstance(parameters, Mapping),
        "parameters",
        "a mapping of named values",
        type(parameters).__name__,
    )
    for name in parameters:
        require(name in prior, "parameters", "names of globals", unknown_name(name, prior))
    missing = [name for name in prior if name not in parameters]
    require(not missing, "parameters", f"a value for each of {list(prior)}", f"none for {missing}")
    shapes = jax.eval_shape(lambda: prior.sample(jax.random.key(0)))
    return {
        name: _value(f"parameters[{name!r}]", q, shapes[name], parameters[name])
        for name, q in prior.items()
    }


def _value(argument: str, q: Family, shapes: Any, given: Any) -> Any:
    """One value: of the shapes of a draw, finite, and one at which the family has a density."""
    fields = getattr(shapes, "_fields", None)
    if fields is not None:
        named = isinstance(given, Mapping)
        fits = (
            set(given) == set(fields)
            if named
            else isinstance(given, tuple) and len(given) == len(fields)
        )
        got = list(given) if named else f"a {type(given).__name__}"
        require(fits, argument, f"a tuple or mapping of {list(fields)}", got)
        given = [given[f] for f in fields] if named else given
        parts = zip(fields, shapes, given, strict=True)
        value: Any = type(shapes)(
            *(_array(f"{argument}.{f}", shape, x, q.discrete) for f, shape, x in parts)
        )
    else:
        value = _array(argument, shapes, given, q.discrete)
    if not _traced((q, value)):
        density = np.asarray(_within_edges(q).log_prob(value))
        support = SUPPORTS.get(type(q).__name__, f"that of a {type(q).__name__}")
        shown = (
            value
            if fields is None
            else str({f: np.asarray(x).tolist() for f, x in value._asdict().items()})
        )
        require(
            density > -np.inf, argument, f"values in its support, {support}", shown
        )  # NaN is not
    return value


def _array(argument: str, shape: Any, given: Any, discrete: bool) -> Array:
    value = jnp.asarray(given) if discrete else as_floats(given, argument=argument)[0]
    require(value.shape == shape.shape, argument, f"shape {shape.shape}", f"shape {value.shape}")
    require(
        True if isinstance(value, jax.core.Tracer) else jnp.isfinite(value),
        argument,
        "finite numbers",
        value,
    )
    return value


def _within_edges(q: Family) -> Family:
    """A member of the family whose density is positive at the edges of its support: a maximum of
    the likelihood may lie there, a probability of zero."""
    if isinstance(q, Dirichlet):
        return Dirichlet(jnp.ones_like(q.concentration))
    if isinstance(q, Beta):
        return Beta(jnp.ones_like(q.alpha), jnp.ones_like(q.beta))
    return q


def _traced(data: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(data))
