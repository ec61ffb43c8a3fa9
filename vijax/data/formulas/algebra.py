"""Terms of a formula: what `a * b`, `a / b` and `(a + b) ** 2` stand for (Wilkinson and Rogers
1973)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vijax.data.formulas.functions import CONTRASTS, RESPONSES
from vijax.data.formulas.syntax import Call, Column, Formula, Node, Number, Operation, Sign
from vijax.data.formulas.tokens import refuse

Term = tuple[Node, ...]
"""The factors of a product of columns; the intercept has none."""
INTERCEPT: Term = ()
MOST_TERMS = 1000
"""Terms of a formula, at most."""
MOST_FACTORS = 8
"""Factors of a term, at most."""


class Terms(NamedTuple):
    """Terms in the order of their columns: those of fewer factors first, as R has them.

    Attributes:
      terms: the intercept is the first where there is one.
      offsets: known parts of the predictor.
    """

    terms: tuple[Term, ...]
    offsets: tuple[Call, ...]


def expand_terms(formula: Formula, addends: Sequence[tuple[str, Node]]) -> Terms:
    """The terms that signs and parts stand for; an intercept is implied.

    Raises:
      ValueError: a part that is taken away and is not there, numbers within products, too many
          terms.

    >>> from vijax.data.formulas.parser import parse
    >>> made = parse("y ~ a * b + c/d - b + offset(e)")
    >>> [":".join(map(str, term)) or "1" for term in expand_terms(made, made.addends).terms]
    ['1', 'a', 'c', 'a:b', 'c:d']
    """
    expansion = _Expansion(formula)
    terms: list[Term] = [INTERCEPT]
    offsets: list[Call] = []
    for sign, node in addends:
        if isinstance(node, Call) and node.function == "offset":
            if sign == "-":
                raise expansion.refuse(
                    node, "an offset that is added", "a minus before it", "Write offset(-x)."
                )
            offsets.append(node)
            continue
        expansion.combine(terms, sign, node)
    by_size = sorted(dict.fromkeys(terms), key=len)
    return Terms(tuple(by_size), tuple(offsets))


class _Expansion:
    """Terms of parts, with errors that mark their place."""

    def __init__(self, formula: Formula):
        self.formula = formula

    def refuse(self, node: Node, expected: str, got: str, remedy: str = "") -> ValueError:
        """The error to raise on a part."""
        return refuse(self.formula.argument, self.formula.text, node.span, expected, got, remedy)

    def combine(self, terms: list[Term], sign: str, node: Node) -> None:
        """Adds the terms of a part to others, or takes them away."""
        if isinstance(node, Number):
            wanted = (node.text == "1") == (sign == "+")
            if sign == "-" and node.text == "0":
                raise self.refuse(
                    node,
                    "1 to the right of a minus",
                    "0",
                    "Write - 1 for no intercept, + 1 for one.",
                )
            if wanted and INTERCEPT not in terms:
                terms.insert(0, INTERCEPT)
            elif not wanted and INTERCEPT in terms:
                terms.remove(INTERCEPT)
            return
        if isinstance(node, Operation) and node.operator in ("+", "-") and sign == "+":
            self.combine(terms, "+", node.left)
            self.combine(terms, node.operator, node.right)
            return
        if isinstance(node, Sign):
            self.combine(terms, "-" if sign == "+" else "+", node.inner)
            return
        own = self.terms(node)
        if sign == "+":
            terms += [term for term in own if not any(_same(term, other) for other in terms)]
            self.check_number(node, terms)
            return
        absent = [term for term in own if not any(_same(term, other) for other in terms)]
        if absent:
            named = ":".join(map(str, absent[0]))
            raise self.refuse(
                node, "terms that are there, to the right of a minus", repr(named), "Leave it out."
            )
        terms[:] = [term for term in terms if not any(_same(term, other) for other in own)]

    def terms(self, node: Node) -> list[Term]:
        """The terms of a part that is no number."""
        if isinstance(node, Column):
            return [(node,)]
        if isinstance(node, Call):
            return [(self.checked_call(node),)]
        if isinstance(node, Operation):
            return self.terms_of_operation(node)
        expected = "columns in products; 0 and 1 stand for the intercept, added to other terms"
        raise self.refuse(node, expected, repr(str(node)))

    def checked_call(self, node: Call) -> Call:
        """A call that may be a factor of a term."""
        if node.function == "offset":
            raise self.refuse(node, "an offset as a term of its own", repr(str(node)))
        if node.function in RESPONSES or node.function == "[]":
            raise self.refuse(
                node, "terms to the right of ~", repr(node.function), "It is for a response."
            )
        if node.function in CONTRASTS:
            raise self.refuse(node, "a term", repr(node.function), f"Write C(h, {node.function}).")
        return node

    def terms_of_operation(self, node: Operation) -> list[Term]:
        """The terms of two parts and an operator."""
        if node.operator == "**":
            return self.terms_of_power(node)
        left, right = self.terms(node.left), self.terms(node.right)
        if node.operator == "+":
            terms = _unique([*left, *right])
        elif node.operator == "-":
            absent = [term for term in right if not any(_same(term, other) for other in left)]
            if absent:
                named = ":".join(map(str, absent[0]))
                raise self.refuse(
                    node.right, "terms that are there, to the right of a minus", repr(named)
                )
            terms = [term for term in left if not any(_same(term, other) for other in right)]
        elif node.operator == ":":
            terms = _products(left, right)
        elif node.operator == "*":
            terms = _unique([*left, *right, *_products(left, right)])
        else:
            # a / b is a + a:b; of (a + b) / c all of the left stands before c.
            whole = left[0]
            for term in left[1:]:
                whole = _product(whole, term)
            terms = _unique([*left, *_products([whole], right)])
        self.check_number(node, terms)
        return terms

    def terms_of_power(self, node: Operation) -> list[Term]:
        """The terms of a sum to a power."""
        left = self.terms(node.left)
        terms = left
        for _ in range(int(str(node.right)) - 1):
            terms = _unique([*terms, *_products(terms, left)])
            self.check_number(node, terms)
        return terms

    def check_number(self, node: Node, terms: Sequence[Term]) -> None:
        """Refuses more terms, and longer ones, than a formula may have."""
        if len(terms) > MOST_TERMS:
            raise self.refuse(node, f"at most {MOST_TERMS:,} terms", f"{len(terms):,}")
        longest = max(map(len, terms), default=0)
        if longest > MOST_FACTORS:
            raise self.refuse(
                node, f"interactions of at most {MOST_FACTORS} columns", f"one of {longest}"
            )


def _products(left: Iterable[Term], right: Iterable[Term]) -> list[Term]:
    right = list(right)
    return _unique([_product(one, other) for one in left for other in right])


def _product(one: Term, other: Term) -> Term:
    """The factors of both, each once."""
    return (*one, *(factor for factor in other if factor not in one))


def _same(one: Term, other: Term) -> bool:
    """True where two terms have the same factors, in any order."""
    return set(one) == set(other)


def _unique(terms: Iterable[Term]) -> list[Term]:
    kept: dict[frozenset[Node], Term] = {}
    for term in terms:
        kept.setdefault(frozenset(term), term)
    return list(kept.values())
