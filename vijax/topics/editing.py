"""Topics merged, dropped, split and put in another order: which old topics make each new one, and
the concentrations that follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vijax.checks import require

Groups = tuple[tuple[int, ...], ...]
"""For each new topic the old ones of which it is made."""
SPLIT = "Split such a topic afterwards, in a second edit."


def group_topics(
    num_topics: int,
    merge: Sequence[Sequence[int]] = (),
    drop: Sequence[int] = (),
    split: Sequence[int] = (),
    order: Sequence[int] = (),
) -> Groups:
    """The old topics of each new one. All numbers are those before the edit. A topic that is split
    stands twice, its parts one after the other.

    Args:
      num_topics: number of topics before.
      merge: groups of two topics or more, each of which becomes one, at the place of its first.
      drop: topics that go.
      split: topics that become two.
      order: topics that come first, in this order; the others follow as they were.

    Raises:
      ValueError: a number that is no topic, or in two edits; nothing is left, or nothing to do.

    >>> group_topics(5, merge=[[3, 1]], drop=[0], order=[4])
    ((4,), (2,), (3, 1))
    >>> group_topics(3, split=[1])
    ((0,), (1,), (1,), (2,))
    """
    merges = [tuple(group) for group in merge]
    joined = [number for group in merges for number in group]
    _check_numbers(num_topics, merge=joined, drop=drop, split=split, order=order)
    for group in merges:
        expected = "groups of two topics or more"
        require(len(group) >= 2, "merge", expected, list(group), "As [[3, 7], [1, 4, 5]].")
    for name, numbers in (("drop", drop), ("split", split)):
        clash = sorted(set(joined) & set(numbers))
        require(not clash, name, "topics that are not merged too", clash, SPLIT)
    clash = sorted(set(drop) & {*split, *order})
    require(not clash, "drop", "topics that are not split or ordered too", clash)
    require(bool(merges or drop or split or order), "edit", "something to do", "nothing")
    by_first = {group[0]: group for group in merges}
    absent = {*drop, *(number for group in merges for number in group[1:])}
    groups = [by_first.get(k, (k,)) for k in range(num_topics) if k not in absent]
    require(bool(groups), "drop", "at least one topic that is left", "all")
    rank = {number: place for place, number in enumerate(order)}
    groups.sort(key=lambda group: min(rank.get(k, num_topics) for k in group))
    return tuple(group for group in groups for _ in range(1 + (group[0] in split)))


def _check_numbers(num_topics: int, **edits: Sequence[int]) -> None:
    for name, numbers in edits.items():
        expected = f"numbers of topics, 0 to {num_topics - 1}, each once"
        are_topics = all(
            isinstance(k, int | np.integer) and 0 <= k < num_topics and not isinstance(k, bool)
            for k in numbers
        )
        is_valid = are_topics and len(set(numbers)) == len(numbers)
        require(is_valid, name, expected, list(numbers))


def sum_groups(values: Float[np.ndarray, "K ..."], groups: Groups) -> Float[np.ndarray, "G ..."]:
    """Sums over the old topics of each new one; the two parts of a split topic have half each.

    >>> sum_groups(np.array([1.0, 2.0, 4.0]), ((2, 0), (1,), (1,))).tolist()
    [5.0, 1.0, 1.0]
    """
    sums = [np.sum(values[list(group)], axis=0) / groups.count(group) for group in groups]
    return np.asarray(sums)
