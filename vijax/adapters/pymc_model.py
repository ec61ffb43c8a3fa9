"""PyMC models as log densities of free variables, and draws in PyMC's form of inference data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.adapters.conjugate.marginal import (
    AllValues,
    Marginal,
    PlaceholderFunction,
    Plan,
    describe,
)
from vijax.adapters.conjugate.search import find_plan
from vijax.adapters.indices import check_indices
from vijax.adapters.pymc_discrete import SUMMED_OUT, sum_discrete_variables
from vijax.adapters.pymc_laws import children_names, read_hierarchy
from vijax.adapters.pymc_programs import compile_density, compile_graph, minibatches
from vijax.adapters.reuse import reuse_model
from vijax.checks import require
from vijax.contract.model import Model
from vijax.contract.variables import Free, free
from vijax.extras import require_extra
from vijax.fitting.result import Fit
from vijax.models.energies.density import density, with_hierarchy, with_prior, with_source

Values = Mapping[str, Any]
NUM_POINTS = 4
"""Points at which variables that can be integrated out are looked for."""


def from_pymc(model: Any, *, integrate: bool = True) -> Model:
    """A model from a PyMC model.

    Its variables are PyMC's value variables, unconstrained and by PyMC's names: `sigma_log__` is
    the logarithm of `sigma`, `p_simplex__` the coordinates of `p`. `fit.sample` returns them, the
    variables in their supports, and all `pymc.Deterministic`. The data are in the model:
    `vijax.auto(model, key=key)`. If they are a `pymc.Minibatch`,
    `vijax.fit(vijax.advi(model), key=key, num_epochs=50, batch_size=100)` deals batches of them.

    Slopes are PyTensor's own where JAX has its operations. Dimensions and data are taken as they
    are. Discrete variables of finitely many values are summed out by `pymc_extras` if it is
    installed, and `fit.verdict` names them.

    Of variables whose law depends on others, those whose integral has a closed form given all
    others are integrated out: effects of groups, rates and walks in normal, Poisson and binomial
    data (beta, gamma, inverse gamma and normal laws, also in blocks). `fit.verdict` names them, and
    `fit.sample` draws them from their law given the others.

    Args:
      model: a `pymc.Model`.
      integrate: False keeps all continuous variables in the density.

    Returns:
      A density of the value variables, for `vijax.auto` and every algorithm that fits densities.

    Raises:
      ValueError: nothing is unknown; a discrete variable cannot be summed out; an operation has no
          translation to JAX; batches are of several `pymc.Minibatch`.
      ImportError: PyMC is not installed; for discrete variables, pymc_extras.

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
    require(isinstance(integrate, bool), "integrate", "True or False", repr(integrate))
    model, names = sum_discrete_variables(model)
    model = _freeze(model)
    inputs = list(model.value_vars)
    start = model.initial_point(0)
    remedy = "Everything is observed: nothing is left to infer."
    require(bool(inputs), "model", "unknown variables", "none", remedy)
    _check_no_simulators(model)
    queries = {}
    if names:
        queries["summed out"] = SUMMED_OUT.format(names=names)
    variables = {variable.name: free(np.shape(start[variable.name])) for variable in inputs}
    batched = [y for y in model.observed_RVs if minibatches([model.rvs_to_values[y]])]
    unbatched = [y for y in model.basic_RVs if y not in batched]
    places = _to_list(inputs, start)
    joint = compile_density(inputs, model.logp(vars=[*unbatched, *model.potentials]), places)
    log_joint = lambda values: joint(*_to_list(inputs, values))
    prior = compile_graph(inputs, [model.logp(vars=model.free_RVs)])
    log_prior = lambda values: prior(*_to_list(inputs, values))[0]
    values = {variable.name: start[variable.name] for variable in inputs}
    _check_trace(log_joint, values)
    check_indices(log_joint, values)
    if batched:
        log_lik, data = _row_likelihood(model, inputs, batched, places)
        derived = _derived_values(model, inputs)
        batch_model = density(variables, log_prior=log_joint, log_lik=log_lik, derived=derived)
        form = dataclasses.replace(batch_model.form, given=data)
        return with_source(dataclasses.replace(batch_model, form=form), "PyMC", queries)
    derived = _derived_values(model, inputs)

    def make() -> Model:
        walk, levels = read_hierarchy(model, inputs, start)
        are_parents = lambda names: bool(children_names(model, start, names) - set(names))
        plan = None
        if integrate:
            plan = find_plan(log_joint, variables, levels, are_parents, _trial_points(values))
        if plan is None:
            new_model = with_prior(density(variables, log_joint, derived=derived), log_prior)
        else:
            remaining = plan.remaining(variables)
            new_model = _marginal_model(plan, model, inputs, remaining, log_joint, derived)
            levels, walk = plan.remaining_levels(levels), plan.walk(walk)
            own_names = [
                x.name for x in model.free_RVs if x not in _remaining_variables(model, remaining)
            ]
            queries["summed out"] = f"{queries.get('summed out', '')} {describe(own_names)}".strip()
        if levels:
            new_model = with_hierarchy(new_model, walk, levels)
        return with_source(new_model, "PyMC", queries)

    # Two models of one density may differ in their variables, and so in their levels.
    facts = (
        variables,
        names,
        integrate,
        [(x.name, str(x.owner and x.owner.op)) for x in model.free_RVs],
    )
    return reuse_model(log_joint, [log_prior, derived], values, facts, make)


def _marginal_model(
    plan: Plan,
    model: Any,
    inputs: Sequence[Any],
    remaining: Mapping[str, Free],
    log_joint: Callable[[Values], Any],
    derived: Callable[[Values], dict[str, Any]] | None,
) -> Model:
    """The density of the other variables, those of a plan integrated out."""
    marginal = Marginal(plan, log_joint)
    prior = compile_graph(inputs, [model.logp(vars=_remaining_variables(model, remaining))])
    log_prior = PlaceholderFunction(plan, lambda values: prior(*_to_list(inputs, values))[0])
    new_density = density(remaining, marginal, derived=AllValues(marginal, derived))
    return with_prior(new_density, log_prior)


def _remaining_variables(model: Any, remaining: Mapping[str, Free]) -> list[Any]:
    """The random variables whose values are among these."""
    return [x for x in model.free_RVs if model.rvs_to_values[x].name in remaining]


def _trial_points(values: Values) -> list[dict[str, np.ndarray]]:
    """Values of the variables about those where PyMC would start."""
    rng = np.random.default_rng(0)
    shift = lambda x: np.asarray(x) + rng.uniform(-1, 1, np.shape(x))
    return [{name: shift(x) for name, x in values.items()} for _ in range(NUM_POINTS)]


def _freeze(model: Any) -> Any:
    """The model with its dimensions and data as constants, so that JAX knows all shapes; the model
    itself where PyMC cannot copy it."""
    if any(minibatches([value]) for value in model.rvs_to_values.values()):
        return model
    try:
        module = require_extra("pymc.model.transform.optimization", "pymc")
        return module.freeze_dims_and_data(model)
    except Exception:  # a variable that PyMC cannot copy: its data stay as they are
        return model


def _check_no_simulators(model: Any) -> None:
    """Raises ValueError naming a variable without a density."""
    for variable in model.basic_RVs:
        kind = type(variable.owner.op).__name__
        has_density = not kind.startswith("Simulator")
        remedy = "A pymc.Simulator has none: pymc.sample_smc fits it."
        argument = f"model: variable {variable.name!r}"
        require(has_density, argument, "a variable with a density", "a simulator", remedy)


def _check_trace(log_density: Callable[[Values], Any], values: Values) -> None:
    """Raises ValueError with PyTensor's or JAX's words where the density cannot be traced."""
    floats = {name: jnp.asarray(x, jnp.result_type(float)) for name, x in values.items()}
    try:
        jax.eval_shape(log_density, floats)
    except Exception as error:  # of any operation
        text = str(error).strip().partition("\n")[0]
        actual = f"{type(error).__name__}: {text}"
        remedy = "A shape that depends on values of variables is no program of JAX: make it fixed."
        message = f"model: expected a log density that JAX can trace, got {actual}. {remedy}"
        raise ValueError(message) from error


def to_inference_data(fit: Fit, model: Any, key: PRNGKeyArray, num_draws: int = 1000) -> Any:
    """Draws of a fit of `from_pymc(model)` in the form of PyMC's draws: the variables in their
    supports, with PyMC's dimensions and coordinates."""
    draws = fit.sample(key, num_draws)
    arviz = require_extra("arviz", "arviz")
    names = [variable.name for variable in model.unobserved_RVs if variable.name in draws]
    posterior = {name: np.asarray(draws[name])[None] for name in names}
    variable_dims = model.named_vars_to_dims.items()
    dims = {name: list(axes) for name, axes in variable_dims if name in posterior}
    sizes = {name: int(model.dim_lengths[name].eval()) for name in model.coords}
    coords = {
        name: np.arange(sizes[name]) if labels is None else list(labels)
        for name, labels in model.coords.items()
    }
    has_trees = int(arviz.__version__.partition(".")[0]) >= 1
    groups = {"posterior": posterior} if has_trees else posterior
    return arviz.from_dict(groups, dims=dims, coords=coords)


def _to_list(inputs: Sequence[Any], values: Values) -> list[Any]:
    """The values in the order of the inputs."""
    return [values[variable.name] for variable in inputs]


def _derived_values(model: Any, inputs: Sequence[Any]) -> Callable[[Values], dict[str, Any]] | None:
    """A function from values to the variables in their supports and the deterministic variables,
    of those that do not depend on a batch."""
    names = {variable.name for variable in inputs}
    outputs = [
        variable
        for variable in model.unobserved_value_vars
        if variable.name not in names and not minibatches([variable])
    ]
    if not outputs:
        return None
    program = compile_graph(inputs, outputs)
    output_names = [variable.name for variable in outputs]
    return lambda values: dict(zip(output_names, program(*_to_list(inputs, values)), strict=True))


# --- batches --------------------------------------------------------------------------------------
def _row_likelihood(
    model: Any, inputs: Sequence[Any], batched: Sequence[Any], places: Sequence[Any]
) -> tuple[Callable[[Values, Any], Any], Any]:
    """The log likelihood of a row (not scaled) as a function of values and row; and all rows."""
    pymc = require_extra("pymc", "pymc")
    tensor = require_extra("pytensor.tensor", "pymc")
    replace = require_extra("pytensor.graph.replace", "pymc").clone_replace
    scaled = require_extra("pymc.variational.minibatch_rv", "pymc").MinibatchRandomVariable
    terms = []
    for y in batched:
        variable = y.owner.inputs[0] if isinstance(y.owner.op, scaled) else y
        # PyMC 6 repeats the density of a row up to the size of the batch.
        terms.append(pymc.logp(variable, model.rvs_to_values[y])[:1].sum())
    terms = model.replace_rvs_by_values(terms)
    nodes = minibatches(terms)
    remedy = "Give all data to one: x, y = pymc.Minibatch(x, y, batch_size=100)."
    require(len(nodes) == 1, "model", "data of one pymc.Minibatch", f"{len(nodes)} of them", remedy)
    (node,) = nodes
    *batches, _ = node.outputs
    data = tuple(x.eval() for x in node.inputs[: len(batches)])
    rows = [tensor.tensor(dtype=x.type.dtype, shape=(1, *x.type.shape[1:])) for x in batches]
    terms = replace(terms, dict(zip(batches, rows, strict=True)), rebuild_strict=False)
    first_rows = [x[:1] for x in data]
    program = compile_density(inputs, sum(terms), [*places, *first_rows], rows)

    def log_lik(values: Values, row: Any) -> Any:
        batch = [jnp.asarray(x)[None] for x in row]
        return program(*_to_list(inputs, values), *batch)

    return log_lik, data
