"""The unit of a held-out score, from its text: nats per word, row or step, or one of rankings."""

from __future__ import annotations

import re

NAT_MEANING = (
    "A nat is a unit of log probability: one nat more makes what is seen 2.72 times as probable."
)
NDCG_MEANING = (
    "NDCG is 1 where all that was hidden of what a user took stands first among the recommended "
    "items, 0 where none of it is among them; places further down count less."
)
_NUMBERS = re.compile(r"^\S+(?: ± \S+)? ")


def read_unit(score: str) -> str:
    """The words of a score, without its numbers and its parenthesis.

    >>> read_unit("-1.0 ± 0.1 nats per row (20 rows)")
    'nats per row'
    >>> read_unit("0.333 ± 0.043 NDCG@20, recall@20 0.400 (6 users)")
    'NDCG@20'
    """
    return _NUMBERS.sub("", score).partition(" (")[0].partition(",")[0]


def is_ranking(unit: str) -> bool:
    """True for a measure of rankings, which is not a log probability."""
    return unit.startswith("NDCG")


def name_measure(unit: str) -> str:
    """The name of the measure with this unit.

    >>> name_measure("nats per word"), name_measure("NDCG@20")
    ('Document completion, nats per word', 'Ranking of hidden items, NDCG@20')
    """
    if is_ranking(unit):
        return f"Ranking of hidden items, {unit}"
    measure = "Document completion" if unit == "nats per word" else "Log predictive density"
    return f"{measure}, {unit}"


def explain_unit(unit: str) -> str:
    """A sentence for readers who do not know the unit."""
    return NDCG_MEANING if is_ranking(unit) else NAT_MEANING
