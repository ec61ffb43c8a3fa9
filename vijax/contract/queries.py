"""Questions that the fits of some models answer, by name; and draws of data given values of the
globals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from vijax.checks import require, require_integers, traceable
from vijax.tree import to_device

Values = Mapping[str, Any]
Draw = Callable[[Any, Values, Values, PyTree, PRNGKeyArray], PyTree]
"""(hyper, values of the globals, values of the locals, layout, key) -> data."""


def _as_floats(layout: PyTree, data: PyTree) -> PyTree:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(float)), data)


def _identity(stats: Any, local: Any) -> Any:
    return local


@dataclasses.dataclass(frozen=True, eq=False)
class Generative:
    """The functions that draw data from a model."""

    # Data, or sizes -> the layout of the data to draw (number of rows, lengths, inputs), a pytree
    # of arrays; raises ValueError on anything else
    layout: Callable[[Any], PyTree]
    data: Draw  # draws data of a layout
    # (hyper, values of the globals, layout, key) -> values of the locals of new groups, by name,
    # drawn from their prior. None for models without locals
    locals: Callable[[Any, Values, PyTree, PRNGKeyArray], Values] | None = None
    # (layout, data) -> the data in the form of the draws
    observed: Callable[[PyTree, PyTree], PyTree] = _as_floats
    # (statistics of the globals, locals of the E-step) -> families of the locals, by name
    found: Callable[[Any, Any], Any] = _identity
    # (hyper, posterior, layout) -> families by name, from which the globals are drawn; the layout
    # then belongs to them. None is the posterior
    globals: Callable[[Any, Any, PyTree], Mapping[str, Any]] | None = None
    # True if `layout` takes lists of sizes; False if whole numbers are data
    from_sizes: bool = True
    # (hyper, values of the globals, values of the locals, layout, number of steps, key) -> values
    # of the locals in the steps after the end of each sequence, and the layout of these steps. None
    # for models without time
    ahead: (
        Callable[[Any, Values, Values, PyTree, int, PRNGKeyArray], tuple[Values, PyTree]] | None
    ) = None


QUESTIONS = {
    "score": (
        "defines a held-out score",
        "Read the bound, fit.trace['elbo'], or give the model one: "
        "dataclasses.replace(model, queries={**model.queries, 'score': ...}).",
    ),
    "average": (
        "says how the predictions of several fits are averaged (lda)",
        'Keep the better fit: vijax.fit(..., combine="best").',
    ),
    "transform": (
        "gives documents shares of topics",
        "The locals of data are fit.locals(data, key=key).",
    ),
    "predictive": (
        "says how data are drawn",
        "A log density, an energy or a bound of your own needs one more function: "
        "vijax.density(..., sample=), vijax.energy_model(..., sample=, sample_locals=) or "
        "vijax.model(..., sample=). A likelihood of your own needs Likelihood(..., sample=), an "
        "emission Emission(..., sample=).",
    ),
    "forecast": (
        "draws sequences (hmm, factorial_hmm, arhmm, slds, state space, dynamic_svae)",
        "Fit.predictive draws new rows and documents.",
    ),
    "filter": (
        "filters states row by row (hmm, hdp_hmm)",
        "The locals of whole sequences are fit.locals(data, key=key).",
    ),
    "predict": (
        "predicts from new inputs (gp, glm, glmm)",
        "Draws of new data are fit.predictive(key, num_draws, like); the locals of data are "
        "fit.locals(data, key=key).",
    ),
    "topics": (
        "has a global named topics",
        "The locals of each row are fit.locals(data, key=key).",
    ),
    "locals": (
        "has locals",
        "The posterior of Gaussian predictors at all sites is fit.posterior['z']. For new inputs "
        "use fit.predict(inputs) and model.predictive(fit.posterior, inputs, y).",
    ),
}
"""Questions by name: the ability that a model needs to answer, and the remedy without it.

The answers of a model are

    score: (hyper, `Fit.estimates`, data, key) -> held-out score, if the field has a better one than
        the bound;
    average: ([hyper], [`Fit.estimates`], data, key) -> the score of the averaged predictions of
        several fits;
    transform: (statistics of the globals, locals of one length bucket, key) -> expected topic
        shares of its documents;
    predictive, forecast: the `Generative` that draws data given the globals, and continues
        sequences;
    filter: (hyper, `Fit.estimates`) -> the `vijax.models.series.state_filter.StateFilter`;
    predict: (fit, inputs, **how) -> predictions at new inputs;
    schema: the `vijax.data.schema.schema.Schema` of the training table, by which later tables are
        read (no function);
    names: () -> the names of the unknowns in the order in which `Fit.summary` lists them;
    beside: (fit, draws of the free coordinates, key) -> `values` by name, (S, ...), with the `dims`
        and `coords` of their axes: variables of a density that were integrated out. `Fit.to_arviz`
        reads them; they answer no question of a method of `Fit`;
    locals: (fit, data, key) -> factors by name, of a density whose discrete unknowns were summed
        out; "summed out" is a sentence with their names (no function) for `Fit.verdict`;
    discrete draws: (fit, key, number) -> draws of all unknowns by name, of such a density.

`topics` needs no answer: topics are a global of that name. Other locals come from
`Model.local_elbo`. Samplers also ask for `energy`, the `vijax.models.energies.energy.Energy` of the
model (`vijax.models.energies.energy.model_energy`)."""


def answers(predictive: Generative | None = None, **others: Any) -> dict[str, Any]:
    """`Model.queries`: the answers that are not None. A model that draws sequences has a forecast
    too."""
    has_forecast = predictive is not None and predictive.ahead is not None
    queries = {"predictive": predictive, "forecast": predictive if has_forecast else None, **others}
    return {name: answer for name, answer in queries.items() if answer is not None}


def is_size(like: Any) -> bool:
    """True for a whole number."""
    return isinstance(like, int | np.integer) and not isinstance(like, bool)


def is_sizes(like: Any) -> bool:
    """True for a list or an array of one axis of whole numbers.

    >>> is_sizes([3, 4]), is_sizes(np.array([3, 4])), is_sizes([[3, 4]]), is_sizes(["a"])
    (True, True, False, False)
    """
    if isinstance(like, np.ndarray | jax.Array):
        return like.ndim == 1 and bool(jnp.issubdtype(like.dtype, jnp.integer))
    return isinstance(like, list | tuple) and len(like) > 0 and all(map(is_size, like))


def rows_like(
    check: Callable[[Any], None], example: Any, needs_data: str = ""
) -> Callable[[Any], Any]:
    """The `Generative.layout` of a model of rows like `example`: it takes a number of rows, or data
    that `check` accepts. `needs_data` is the reason that the model needs data; "" if it takes a
    number."""

    def layout(like: Any) -> Any:
        if is_size(like):
            require(not needs_data, "like", f"data, {needs_data}", like)
            require_integers(like=int(like))
            row = np.asarray(example, jnp.result_type(float))
            return to_device(np.broadcast_to(row, (int(like), *row.shape)))
        check(like)
        return jnp.asarray(like, jnp.result_type(float))

    return layout


def length_masks(lengths: Any) -> np.ndarray:
    """Masks that are True in the first `lengths[n]` columns of row n.

    >>> length_masks([1, 2]).tolist()
    [[True, False], [True, True]]
    """
    sizes = np.asarray(lengths)
    require(sizes.size > 0 and np.all(sizes >= 0), "like", "lengths of 0 or more", sizes)
    return np.arange(max(int(sizes.max()), 1)) < sizes[:, None]


def user_generative(
    sample: Callable[[Values, PyTree, PRNGKeyArray], PyTree] | None,
    sample_locals: Callable[[Values, PyTree, PRNGKeyArray], Values] | None,
    check: Callable[[Any], None],
    is_whole: bool = False,
    argument: str = "sample",
) -> Generative | None:
    """The `Generative` of a user's functions for one group; None if the model draws nothing.

    Args:
      sample: (values by name, group, key) -> a group of the same shapes, drawn given these values.
      sample_locals: (values by name, group, key) -> values of its locals by name.
      check: raises ValueError on impossible data.
      is_whole: True if all data are one group.
      argument: the name of `sample` in messages.
    """
    if sample is None:
        remedy = "Give both, or neither."
        require(sample_locals is None, "sample_locals", "None without sample", "a function", remedy)
        return None
    function: Any = sample

    def draw(values: Values, group: PyTree, key: PRNGKeyArray) -> PyTree:
        with traceable(argument):
            result = function(values, group, key)
        return _check_shapes(result, group, argument)

    def layout(like: Any) -> PyTree:
        remedy = "It takes inputs and sizes from them, and replaces what is random."
        require(not is_size(like), "like", "data, as the model is fitted to", like, remedy)
        check(like)
        return jax.tree.map(to_device, like)

    def data(
        hyper: Any, values: Values, local: Values, layout: PyTree, key: PRNGKeyArray
    ) -> PyTree:
        if is_whole:
            return draw(values, layout, key)
        size = jax.tree.leaves(layout)[0].shape[0]
        draw_group = lambda local, group, key: draw({**values, **local}, group, key)
        return jax.vmap(draw_group)(dict(local), layout, jax.random.split(key, size))

    def locals_(hyper: Any, values: Values, layout: PyTree, key: PRNGKeyArray) -> Values:
        size = jax.tree.leaves(layout)[0].shape[0]
        function: Any = sample_locals
        draw_group = lambda group, key: dict(function(values, group, key))
        return jax.vmap(draw_group)(layout, jax.random.split(key, size))

    return Generative(
        layout,
        data,
        None if sample_locals is None else locals_,
        lambda layout, data: layout,
        from_sizes=False,
    )


def _check_shapes(result: PyTree, group: PyTree, argument: str) -> PyTree:
    """The result of a user's function. ValueError if it has not the shapes of a group."""
    shapes = lambda x: jax.tree.map(jnp.shape, x)
    fits = str(shapes(result)) == str(shapes(group))
    expected = f"a group of shapes {shapes(group)}"
    remedy = "Such as: {**group, 'y': drawn}."
    require(fits, argument, expected, f"one of shapes {shapes(result)}", remedy)
    return result
