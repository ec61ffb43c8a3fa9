"""Terms of a formula: the meaning of `a * b`, `a / b` and `(a + b) ** 2` (Wilkinson and Rogers
1973)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vijax.data.formulas.functions import CLASS_COUNTS, CONTRASTS, PARTLY_KNOWN, RESPONSES
from vijax.data.formulas.syntax import Call, Column, Formula, Node, Number, Operation, Sign
from vijax.data.formulas.tokens import refuse

Term = tuple[Node, ...]
"""The factors of a product of columns; () for the intercept."""
INTERCEPT: Term = ()
MOST_TERMS = 1000
"""The most terms of a formula."""
MOST_FACTORS = 8
"""The most factors of a term."""


class Terms(NamedTuple):
    """Terms in the order of their columns, by number of factors, as in R.

    Attributes:
      terms: the intercept, if there is one, comes first.
      offsets: known parts of the predictor.
    """

    terms: tuple[Term, ...]
    offsets: tuple[Call, ...]


def expand_terms(formula: Formula, addends: Sequence[tuple[str, Node]]) -> Terms:
    """The terms of signs and parts; an intercept is implied.

    Raises:
      ValueError: a part to the right of a minus that does not exist, numbers within products, or
        too many terms.

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
                expected = "an offset that is added"
                raise expansion.refuse(node, expected, "a minus before it", "Write offset(-x).")
            offsets.append(node)
            continue
        expansion.combine(terms, sign, node)
    by_size = sorted(dict.fromkeys(terms), key=len)
    return Terms(tuple(by_size), tuple(offsets))


class _Expansion:
    """The expansion of parts into terms, with errors that mark their place."""

    def __init__(self, formula: Formula):
        self.formula = formula

    def refuse(self, node: Node, expected: str, got: str, remedy: str = "") -> ValueError:
        """The error to raise for a part."""
        return refuse(self.formula.argument, self.formula.text, node.span, expected, got, remedy)

    def combine(self, terms: list[Term], sign: str, node: Node) -> None:
        """Adds the terms of a part to others, or removes them."""
        if isinstance(node, Number):
            self._set_intercept(terms, sign, node)
            return
        if isinstance(node, Operation) and node.operator in ("+", "-") and sign == "+":
            self.combine(terms, "+", node.left)
            self.combine(terms, node.operator, node.right)
            return
        if isinstance(node, Sign):
            self.combine(terms, "-" if sign == "+" else "+", node.inner)
            return
        new_terms = self.terms(node)
        if sign == "+":
            terms += _exclude(new_terms, terms)
            self.check_number(node, terms)
            return
        absent = _exclude(new_terms, terms)
        if absent:
            expected = "terms that are there, to the right of a minus"
            name = ":".join(map(str, absent[0]))
            raise self.refuse(node, expected, repr(name), "Leave it out.")
        terms[:] = _exclude(terms, new_terms)

    def _set_intercept(self, terms: list[Term], sign: str, node: Number) -> None:
        is_wanted = (node.text == "1") == (sign == "+")
        if sign == "-" and node.text == "0":
            remedy = "Write - 1 for no intercept, + 1 for one."
            raise self.refuse(node, "1 to the right of a minus", "0", remedy)
        if is_wanted and INTERCEPT not in terms:
            terms.insert(0, INTERCEPT)
        elif not is_wanted and INTERCEPT in terms:
            terms.remove(INTERCEPT)

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
        if node.function in (*RESPONSES, CLASS_COUNTS, *PARTLY_KNOWN) or node.function == "[]":
            expected = "terms to the right of ~"
            raise self.refuse(node, expected, repr(node.function), "It is for a response.")
        if node.function in CONTRASTS:
            raise self.refuse(node, "a term", repr(node.function), f"Write C(h, {node.function}).")
        return node

    def terms_of_operation(self, node: Operation) -> list[Term]:
        """The terms of two parts and an operator."""
        if node.operator == "**":
            return self.terms_of_power(node)
        left = self.terms(node.left)
        right = self.terms(node.right)
        if node.operator == "+":
            terms = _unique([*left, *right])
        elif node.operator == "-":
            if absent := _exclude(right, left):
                expected = "terms that are there, to the right of a minus"
                name = ":".join(map(str, absent[0]))
                raise self.refuse(node.right, expected, repr(name))
            terms = _exclude(left, right)
        elif node.operator == ":":
            terms = _products(left, right)
        elif node.operator == "*":
            terms = _unique([*left, *right, *_products(left, right)])
        else:
            # a / b is a + a:b; (a + b) / c is a + b + a:b:c.
            product = left[0]
            for term in left[1:]:
                product = _product(product, term)
            terms = _unique([*left, *_products([product], right)])
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
        """Raises a ValueError for more or longer terms than a formula may have."""
        if len(terms) > MOST_TERMS:
            raise self.refuse(node, f"at most {MOST_TERMS:,} terms", f"{len(terms):,}")
        longest = max(map(len, terms), default=0)
        if longest > MOST_FACTORS:
            expected = f"interactions of at most {MOST_FACTORS} columns"
            raise self.refuse(node, expected, f"one of {longest}")


def _products(left: Iterable[Term], right: Iterable[Term]) -> list[Term]:
    right = list(right)
    return _unique([_product(first, second) for first in left for second in right])


def _product(left: Term, right: Term) -> Term:
    """The factors of both, each once."""
    return (*left, *(factor for factor in right if factor not in left))


def _exclude(terms: Iterable[Term], excluded: Sequence[Term]) -> list[Term]:
    """The terms that do not have the factors, in any order, of an excluded term."""
    return [term for term in terms if not any(set(term) == set(x) for x in excluded)]


def _unique(terms: Iterable[Term]) -> list[Term]:
    by_factors: dict[frozenset[Node], Term] = {}
    for term in terms:
        by_factors.setdefault(frozenset(term), term)
    return list(by_factors.values())
