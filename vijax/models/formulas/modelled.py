"""The quantity that a regression models, in words: a mean, or the odds of a class."""

from __future__ import annotations

from vijax.data.formulas.design_columns import Category
from vijax.data.formulas.syntax import Node
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import SUPPORTS, Law


def sentence(design: Design, law: Law) -> str:
    """A sentence or two on the quantity that is modelled, and the base levels of categories.

    >>> from vijax.models.formulas.formula import read
    >>> from vijax.models.formulas.laws import LAWS
    >>> table = {"use": ["N", "Y", "Y"], "urban": ["no", "yes", "yes"]}
    >>> sentence(read("use ~ urban", table, LAWS["bernoulli"]), LAWS["bernoulli"])
    "Modelled are the odds of use = 'Y' against 'N'. Base levels: urban = 'no'."
    """
    sentences = [f"Modelled {_quantity(design, law)}."]
    bases = [
        f"{node} = {category.levels.names[0]!r}" for node, category in _treatment_categories(design)
    ]
    if design.observed is not None and design.observed.observation is not None:
        sentences.append(design.observed.observation.sentence())
    for terms in design.further:
        if terms.step is not None:
            continue
        quantity = f"the logarithm of {terms.name}"
        if SUPPORTS.get(terms.name) == "unit interval":
            quantity = f"the log odds of {terms.name}"
        sentences.append(f"Modelled too is {quantity}, by {terms.parsed.text}.")
    if bases:
        sentences.append(f"Base levels: {', '.join(bases)}.")
    return " ".join(sentences)


def _quantity(design: Design, law: Law) -> str:
    name = design.response
    observed = design.observed
    if law.is_named:
        return f"are the odds of each other category of {name} against {design.levels[0]!r}"
    if law.has_steps:
        return (
            f"are the odds of going on beyond each category of {name}, of rows that reach it, in "
            f"the order {', '.join(design.levels)}"
        )
    if law.is_ordered:
        return (
            f"are the odds of higher categories of {name}, in the order {', '.join(design.levels)}"
        )
    if observed is not None and observed.kind == "level" and observed.levels is not None:
        other_levels = [level for level in observed.levels.names if level != observed.level]
        against = repr(other_levels[0]) if len(other_levels) == 1 else "all others"
        return f"are the odds of {name} = {observed.level!r} against {against}"
    if law.name == "bernoulli":
        return f"are the odds of {name} = 1 against 0"
    if law.takes_trials:
        return f"are the odds of a success in {name}"
    if law.is_circular:
        return f"is the tangent of half of {law.location.format(name)} (radians)"
    if law.link == "identity":
        return f"is {law.location.format(name)}"
    return f"is the {law.link} of {law.location.format(name)}"


def _treatment_categories(design: Design) -> list[tuple[Node, Category]]:
    """The categories that are compared with their first level."""
    return [
        (node, category)
        for node, category in design.common.categories.items()
        if category.contrast.names == category.levels.names[1:]
        and not category.contrast.matrix[0].any()
    ]
