"""A model at given values of its globals, also without a fit: log likelihood, locals, prior."""

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
        """log p(data | parameters) in nats, with the locals summed or integrated out. It is exact
        if the E-step is exact (no two locals of a group depend on each other), else a lower bound,
        or an estimate of a lower bound if the E-step draws. Differentiable in the parameters and
        the hyperparameters.

        Args:
          data: as for `vijax.fit`: arrays with one leading axis of groups, a `Minibatch`, or
              documents.
          key: random key of an E-step that draws.
        """
        return self._local_elbo(self._batch(data)[0], key).total

    def per_group(self, data: Any, *, key: PRNGKeyArray) -> Float[Array, " groups"]:
        """The log likelihood of each group, in the order of the data. Not differentiable."""
        batch, order = self._batch(data)
        bounds = self._local_elbo(batch, key).per_group
        if order is None:
            return bounds
        from vijax.data import in_order

        values = np.concatenate([np.asarray(bound) for bound in bounds])
        return jnp.asarray(in_order(values, order))

    def locals(self, data: Any, *, key: PRNGKeyArray) -> PyTree:
        """The locals. For a model from `energy_model`, the posteriors of the locals by name, with a
        leading axis of groups; mean-field factors if locals are coupled."""
        return self._local_elbo(self._batch(data)[0], key).local

    def log_prior(self) -> Float[Array, ""]:
        """log p(parameters) in nats, with the terms that couple the globals of a hierarchy.
        Differentiable in the parameters and the hyperparameters."""
        prior = self.model.prior(self.hyper)
        log_prior = prior.log_prob(self.parameters)
        coupling = self.model.global_elbo
        if coupling is None:
            return log_prior
        return log_prior + coupling(self.hyper, prior.stats(self.parameters))

    def _local_elbo(self, batch: Minibatch, key: PRNGKeyArray) -> LocalElbo:
        def bind(model_ref: weakref.ref[Model]) -> Callable[..., LocalElbo]:
            def local_elbo(estep, hyper, parameters, batch, key):
                model = model_ref()
                stats = model.prior(hyper).stats(parameters)
                return model.local_elbo(hyper, stats, batch, key, estep)

            return step_jit(local_elbo, static_argnums=(0,))

        program = cached_program(self.model, "at", bind)
        return program(self.estep, self.hyper, dict(self.parameters), batch, key)

    def _batch(self, data: Any) -> tuple[Minibatch, Any]:
        """Data as one batch, and the rows of documents, because these are sorted by length; None
        for other data."""
        if isinstance(data, Minibatch):
            return data._replace(data=cast_data(self.model, data.data), num_groups=None), None
        are_batches = isinstance(data, tuple) and all(isinstance(x, Documents) for x in data)
        if self.model.form.documents is not None and not are_batches:
            from vijax.data import full_batch, read

            batch, rows = full_batch(read(data))
            return batch._replace(num_groups=None), rows
        if self.model.form.check is not None and not _is_traced(data):
            self.model.form.check(data)
        return Minibatch(cast_data(self.model, data), None), None


def at(
    model: Model,
    parameters: Mapping[str, Any],
    hyper: Mapping[str, Any] | None = None,
    estep: Any = None,
) -> At:
    """A model at given values of its globals: log likelihood in total and by group, locals, and log
    prior.

    Nothing is fitted. Use it to judge the results of other programs by the model, or to pass a
    likelihood to another optimiser or sampler: it works under `jax.jit` and `jax.grad`.

    Args:
      model: any `vijax.Model` whose globals have densities: a ready model, an energy, or a model
        with a hand-written bound. Not a Gaussian process or GLM, because the base measure of their
        predictors is the prior.
      parameters: a value for each global by name, in the shape of its draws
        (`model.prior(model.hyper).sample(key)` shows one), such as `fit.posterior.mean()`. A value
        of several parts, such as a mean and a precision, is a tuple or a mapping.
      hyper: hyperparameters that replace those of the model, such as `fit.state.hyper`.
      estep: the E-step, which computes the locals; None: that of the model.

    Returns:
      `At`: `.log_likelihood(data, key=key)`, `.per_group(...)`, `.locals(...)`, `.log_prior()`.

    Raises:
      ValueError: a name that is missing or unknown, or a value that has another shape, is not
          finite or is outside of the support.
      TypeError: `model` is not a `vijax.Model`.

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
    call = "model.likelihood(hyper, statistics of others).log_prob(y, z)"
    remedy = f"Of a GP or GLM, one observation: {call}."
    expected = "a model whose globals have densities of their own"
    require(model.by_entry is None, "model", expected, "sites", remedy)
    settings = {**model.hyper, **(hyper or {})}
    for name in settings:
        require(name in model.hyper, "hyper", f"names among {list(model.hyper)}", name)
    settings = tree.as_arrays(settings)
    values = _check_values(model.prior(settings), parameters)
    if estep is None:
        estep = model.estep
    return At(model, settings, values, estep)


def _check_values(prior: Product, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values in the structure and precision of draws; ValueError naming what does not fit."""
    is_mapping = isinstance(parameters, Mapping)
    kind = type(parameters).__name__
    require(is_mapping, "parameters", "a mapping of named values", kind)
    for name in parameters:
        require(name in prior, "parameters", "names of globals", unknown_name(name, prior))
    missing = [name for name in prior if name not in parameters]
    require(not missing, "parameters", f"a value for each of {list(prior)}", f"none for {missing}")
    shapes = jax.eval_shape(lambda: prior.sample(jax.random.key(0)))
    return {
        name: _value(f"parameters[{name!r}]", q, shapes[name], parameters[name])
        for name, q in prior.items()
    }


def _value(argument: str, q: Family, shapes: Any, value: Any) -> Any:
    """One value, in the structure of a draw; ValueError unless it has the shapes of a draw, is
    finite and in the support of the family."""
    fields = getattr(shapes, "_fields", None)
    if fields is None:
        value = _array(argument, shapes, value, q.discrete)
    else:
        parts = zip(fields, shapes, _parts(argument, fields, value), strict=True)
        arrays = [_array(f"{argument}.{name}", shape, x, q.discrete) for name, shape, x in parts]
        value = type(shapes)(*arrays)
    if not _is_traced((q, value)):
        density = np.asarray(_flat_member(q).log_prob(value))
        support = SUPPORTS.get(type(q).__name__, f"that of a {type(q).__name__}")
        text = value
        if fields is not None:
            text = str({name: np.asarray(x).tolist() for name, x in value._asdict().items()})
        # The comparison is false for NaN.
        require(density > -np.inf, argument, f"values in its support, {support}", text)
    return value


def _parts(argument: str, fields: tuple[str, ...], value: Any) -> list[Any]:
    """The parts of a value, from a tuple or a mapping, in the order of the fields."""
    expected = f"a tuple or mapping of {list(fields)}"
    if isinstance(value, Mapping):
        require(set(value) == set(fields), argument, expected, list(value))
        return [value[name] for name in fields]
    fits = isinstance(value, tuple) and len(value) == len(fields)
    require(fits, argument, expected, f"a {type(value).__name__}")
    return list(value)


def _array(argument: str, shape: Any, value: Any, discrete: bool) -> Array:
    """One array of this shape; ValueError unless it has the shape and is finite."""
    array = jnp.asarray(value) if discrete else as_floats(value, argument=argument)[0]
    require(array.shape == shape.shape, argument, f"shape {shape.shape}", f"shape {array.shape}")
    if not isinstance(array, jax.core.Tracer):
        require(jnp.isfinite(array), argument, "finite numbers", array)
    return array


def _flat_member(q: Family) -> Family:
    """A member of the family whose density is positive at the edges of its support too, because a
    maximum of the likelihood may be at an edge, such as a probability of zero."""
    if isinstance(q, Dirichlet):
        return Dirichlet(jnp.ones_like(q.concentration))
    if isinstance(q, Beta):
        return Beta(jnp.ones_like(q.alpha), jnp.ones_like(q.beta))
    return q


def _is_traced(data: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(data))
