"""Responses that are known in part: measured with errors of known size, censored, or truncated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.formulas.functions import PARTLY_KNOWN, Reading, evaluate
from vijax.data.formulas.syntax import Call, Column, Constant, Formula, Node
from vijax.data.formulas.tokens import refuse
from vijax.models.formulas.laws import Law

Facts = dict[str, Float[np.ndarray, " N"]]
"""Numbers of rows beside the response. `se`: standard errors. `status`: -1, 0, 1, 2, for left,
none, right, interval; `end`: upper ends of intervals. `lowest`, `highest`: ends of the range in
which responses are seen. `precision`: numbers by which the variance is divided."""
STATUS = {"left": -1.0, "none": 0.0, "right": 1.0, "interval": 2.0}
SIGNATURES = {
    "se": "se(y, s) or se(y, s, sigma=True)",
    "censored": "censored(y, status) or censored(lower, upper, status)",
    "truncated": "truncated(y, lb, ub), truncated(y, lb=0) or truncated(y, ub=10)",
}


def is_plain_normal(law: str, has_formulas: bool, facts: Collection[str]) -> bool:
    """True for a normal law with one sigma, times known roots at most."""
    return law == "gaussian" and not has_formulas and set(facts) <= {"precision"}


def has_normal_rows(law: str, facts: Collection[str]) -> bool:
    """True for a normal law whose rows are normal too, of one sigma or of several."""
    return law == "gaussian" and set(facts) <= {"se", "precision"}


class Observation(NamedTuple):
    """The way in which a response is known in part.

    Attributes:
      function: "se", "censored" or "truncated".
      value: the response itself; the lower end of an interval.
      parts: expressions by the name of the fact.
      has_sigma: False where standard errors alone make the response differ from its mean.
    """

    function: str
    value: Node
    parts: Mapping[str, Node]
    has_sigma: bool = True

    def read_facts(self, reading: Reading) -> Facts:
        """The facts of rows; ValueError for other words than those of `STATUS`, and for bounds that
        the response exceeds."""
        value = evaluate(self.value, reading)
        facts = {
            name: evaluate(part, reading) for name, part in self.parts.items() if name != "status"
        }
        if "status" in self.parts:
            status = _read_status(self.parts["status"], reading)
            is_interval = status == STATUS["interval"]
            end = facts.get("end", value)
            bad = is_interval & ~(end > value)
            _check_rows(reading, self.value, bad, "an upper end above the lower one", end)
            # Ends that are not read are above the response too, so that all logarithms are finite.
            facts["end"] = np.where(is_interval, end, value + np.abs(value) + 1.0)
            facts["status"] = status
        if "se" in facts:
            expected = "positive standard errors"
            _check_rows(reading, self.parts["se"], ~(facts["se"] > 0), expected, facts["se"])
        if "lowest" in facts:
            bad = value < facts["lowest"]
            _check_rows(reading, self.value, bad, "a response of lb or more", value)
        if "highest" in facts:
            bad = value > facts["highest"]
            _check_rows(reading, self.value, bad, "a response of ub or less", value)
        return facts

    def sentence(self) -> str:
        """A sentence on what is known."""
        parts = {name: str(part) for name, part in self.parts.items()}
        if self.function == "se":
            return f"Its standard errors are {parts['se']}."
        if self.function == "censored":
            return f"It is censored where {parts['status']} says so."
        ends = [parts[name] for name in ("lowest", "highest") if name in parts]
        words = "from {} to {}"
        if len(ends) == 1:
            words = {"lowest": "from {}", "highest": "up to {}"}[next(iter(parts))]
        words = words.format(*ends)
        return f"It is seen {words} only; means are those before that cut."


def read_observation(formula: Formula) -> Observation | None:
    """The way in which the response of a formula is known; None if it is known itself."""
    node = formula.response
    if not isinstance(node, Call) or node.function not in PARTLY_KNOWN:
        return None
    arguments, keywords = list(node.arguments), dict(node.named)
    if node.function == "se" and len(arguments) == 2 and set(keywords) <= {"sigma"}:
        has_sigma = _read_truth(formula, node, keywords.get("sigma"))
        return Observation("se", arguments[0], {"se": arguments[1]}, has_sigma)
    if node.function == "censored" and len(arguments) in (2, 3) and not keywords:
        parts = {"status": arguments[-1]}
        if len(arguments) == 3:
            parts["end"] = arguments[1]
        return Observation("censored", arguments[0], parts)
    ends = dict(zip(("lb", "ub"), arguments[1:], strict=False))
    is_truncated = node.function == "truncated" and 1 <= len(arguments) <= 3
    if is_truncated and set(keywords) <= {"lb", "ub"} - set(ends) and (ends or keywords):
        ends |= keywords
        titles = {"lb": "lowest", "ub": "highest"}
        return Observation(
            "truncated", arguments[0], {titles[name]: part for name, part in ends.items()}
        )
    expected = SIGNATURES[node.function]
    raise refuse(formula.argument, formula.text, node.span, expected, repr(str(node)))


def _read_truth(formula: Formula, call: Call, node: Node | None) -> bool:
    if node is None:
        return False
    if isinstance(node, Constant) and node.name in ("True", "False"):
        return node.name == "True"
    expected = "sigma=True or sigma=False"
    raise refuse(formula.argument, formula.text, call.span, expected, f"sigma={node}")


def check_law(formula: Formula, observation: Observation, law: Law) -> None:
    """Raises ValueError for a law without standard errors, or without tails."""
    is_allowed = law.tails is not None
    expected = "a law with a distribution function: gaussian, t, lognormal, weibull, gamma, ..."
    if observation.function == "se":
        is_allowed = law.takes_row_errors
        expected = '"gaussian" or "t", for standard errors'
    if observation.function == "censored":
        is_allowed = is_allowed and not law.is_count
        expected = "a law of numbers with a distribution function: gaussian, t, lognormal, ..."
    remedy = f"The response is {formula.response}."
    require(is_allowed, "family", expected, repr(law.name), remedy)


def _read_status(node: Node, reading: Reading) -> np.ndarray:
    """Numbers of the words of a column."""
    expected = f"a column of the words {', '.join(map(repr, STATUS))}"
    if not isinstance(node, Column):
        raise reading.refuse(node, expected, repr(str(node)))
    labels = reading.column(node).labels()
    texts = np.asarray(labels.texts(), object)
    bad = np.flatnonzero([text not in STATUS for text in texts])
    if len(bad):
        place = int(bad[0])
        actual = f"{str(texts[place])[:40]!r} in {reading.table.row_name(place)}"
        remedy = (
            "Write 'right' where the response is known to be larger, 'none' where it is known: "
            "numbers mean other things in other programs."
        )
        raise reading.refuse(node, expected, actual, remedy)
    return np.array([STATUS[text] for text in texts])


def _check_rows(
    reading: Reading, node: Node, bad: np.ndarray, expected: str, values: np.ndarray
) -> None:
    """Raises ValueError with the first of the bad rows."""
    places = np.flatnonzero(bad)
    if not len(places):
        return
    place = int(places[0])
    actual = f"{values[place]:g} in {reading.table.row_name(place)} ({len(places)} such)"
    raise reading.refuse(node, expected, actual)
