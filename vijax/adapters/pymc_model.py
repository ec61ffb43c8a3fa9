"""PyMC models as log densities of free variables, and draws as PyMC's InferenceData."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.adapters.made_again import once
from vijax.adapters.pymc_laws import hierarchy_of
from vijax.adapters.pymc_programs import minibatches, program_of
from vijax.checks import require
from vijax.contract.model import Model
from vijax.contract.variables import free
from vijax.extras import require_extra
from vijax.fitting.result import Fit
from vijax.models.energies.density import density, with_hierarchy, with_prior

Values = Mapping[str, Any]


def from_pymc(model: Any) -> Model:
    """A model from a PyMC model.

    Its variables are PyMC's value variables, unconstrained and by PyMC's names: `sigma_log__` is
    the logarithm of `sigma`, `p_simplex__` the coordinates of `p`. `fit.sample` returns them, and
    beside them the variables in their supports and what `pymc.Deterministic` names. The data are in
    the model: `vijax.auto(model, key=key)`. Where they are `pymc.Minibatch`,
    `vijax.fit(vijax.advi(model), key=key, num_epochs=50, batch_size=100)` deals batches itself.

    Args:
      model: a `pymc.Model`.

    Returns:
      A density of the value variables, for `vijax.auto` and every algorithm that fits densities.

    Raises:
      ValueError: nothing is unknown; a variable is discrete; batches are of several
          `pymc.Minibatch`.
      ImportError: PyMC is not installed.

    A normal mean and four observations (Abril-Pla et al. 2023 describe the library):

    >>> import jax, pytest, vijax as vi
    >>> pymc = pytest.importorskip("pymc")
    >>> with pymc.Model() as story:
    ...     mean = pymc.Normal("mean", 0, 10)
    ...     y = pymc.Normal("y", mean, 1, observed=[1.0, 2.0, 3.0, 4.0])
    >>> fit = vi.auto(vi.from_pymc(story), key=jax.random.key(0))
    >>> print(f"{fit.sample(jax.random.key(1), 4000)['mean'].mean():.1f}")
    2.5
    """
    pymc = require_extra("pymc", "pymc")
    require(isinstance(model, pymc.Model), "model", "a pymc.Model", type(model).__name__)
    inputs = list(model.value_vars)
    start = model.initial_point(0)
    require(
        bool(inputs),
        "model",
        "unknown variables",
        "none",
        "Everything is observed: nothing is left to infer.",
    )
    for one in inputs:
        remedy = "Sum it out: pymc_extras.marginalize, or pymc.Mixture for classes of rows."
        is_real = np.issubdtype(start[one.name].dtype, np.floating)
        require(
            is_real,
            f"model: variable {one.name!r}",
            "a continuous variable",
            "a discrete one",
            remedy,
        )
    variables = {one.name: free(np.shape(start[one.name])) for one in inputs}
    batched = [y for y in model.observed_RVs if minibatches([model.rvs_to_values[y]])]
    whole = [y for y in model.basic_RVs if y not in batched]
    joint = program_of(inputs, [model.logp(vars=[*whole, *model.potentials])])
    log_joint = lambda values: joint(*_in_order(inputs, values))[0]
    prior = program_of(inputs, [model.logp(vars=model.free_RVs)])
    log_prior = lambda values: prior(*_in_order(inputs, values))[0]
    if batched:
        log_lik, data = _by_row(model, inputs, batched)
        made = density(
            variables, log_prior=log_joint, log_lik=log_lik, derived=_derived(model, inputs)
        )
        return dataclasses.replace(made, form=dataclasses.replace(made.form, given=data))
    derived = _derived(model, inputs)

    def make() -> Model:
        made = with_prior(density(variables, log_joint, derived=derived), log_prior)
        walk, levels = hierarchy_of(model, inputs, start)
        return with_hierarchy(made, walk, levels) if levels else made

    # Of two ways of writing one density each has its own levels.
    facts = variables, [(x.name, str(x.owner and x.owner.op)) for x in model.free_RVs]
    values = {one.name: start[one.name] for one in inputs}
    return once(log_joint, [log_prior, derived], values, facts, make)


def to_inference_data(fit: Fit, model: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Any:
    """Draws of a fit of `from_pymc(model)` as PyMC returns its own: the variables in their
    supports, with its dimensions and coordinates."""
    draws, arviz = fit.sample(key, num_draws), require_extra("arviz", "arviz")
    posterior = {
        x.name: np.asarray(draws[x.name])[None] for x in model.unobserved_RVs if x.name in draws
    }
    sizes = {name: int(model.dim_lengths[name].eval()) for name in model.coords}
    more = {
        "dims": {
            name: list(dims) for name, dims in model.named_vars_to_dims.items() if name in posterior
        },
        "coords": {
            name: np.arange(sizes[name]) if x is None else list(x)
            for name, x in model.coords.items()
        },
    }
    is_tree = int(arviz.__version__.partition(".")[0]) >= 1
    return (
        arviz.from_dict({"posterior": posterior}, **more)
        if is_tree
        else arviz.from_dict(posterior, **more)
    )


def _in_order(inputs: Sequence[Any], values: Values) -> list[Any]:
    return [values[one.name] for one in inputs]


def _derived(model: Any, inputs: Sequence[Any]) -> Callable[[Values], dict[str, Any]] | None:
    """The variables in their supports, and deterministic ones, that do not depend on a batch."""
    names = {one.name for one in inputs}
    outputs = [
        x for x in model.unobserved_value_vars if x.name not in names and not minibatches([x])
    ]
    if not outputs:
        return None
    program = program_of(inputs, outputs)
    return lambda values: dict(
        zip([x.name for x in outputs], program(*_in_order(inputs, values)), strict=True)
    )


# --- batches --------------------------------------------------------------------------------------
def _by_row(
    model: Any, inputs: Sequence[Any], batched: Sequence[Any]
) -> tuple[Callable[[Values, Any], Any], Any]:
    """(values, row) -> the log likelihood of a row, not scaled; and all rows."""
    pymc, tensor = require_extra("pymc", "pymc"), require_extra("pytensor.tensor", "pymc")
    replace = require_extra("pytensor.graph.replace", "pymc").clone_replace
    scaled = require_extra("pymc.variational.minibatch_rv", "pymc").MinibatchRandomVariable
    inner = [y.owner.inputs[0] if isinstance(y.owner.op, scaled) else y for y in batched]
    terms = [
        pymc.logp(y, model.rvs_to_values[own]).sum() for y, own in zip(inner, batched, strict=True)
    ]
    terms = model.replace_rvs_by_values(terms)
    nodes = minibatches(terms)
    remedy = "Give all data to one: x, y = pymc.Minibatch(x, y, batch_size=100)."
    require(len(nodes) == 1, "model", "data of one pymc.Minibatch", f"{len(nodes)} of them", remedy)
    (node,) = nodes
    *batches, _ = node.outputs
    data = tuple(x.eval() for x in node.inputs[: len(batches)])
    rows = [tensor.tensor(dtype=x.type.dtype, shape=(1, *x.type.shape[1:])) for x in batches]
    terms = replace(terms, dict(zip(batches, rows, strict=True)), rebuild_strict=False)
    program = program_of([*inputs, *rows], terms)

    def log_lik(values: Values, row: Any) -> Any:
        return sum(program(*_in_order(inputs, values), *(jnp.asarray(x)[None] for x in row)))

    return log_lik, data
