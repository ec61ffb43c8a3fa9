"""Some globals treated by one rule, some by another: variational EM has points beside distributions (Hoffman and Blei
2015, section 2.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from jaxtyping import PRNGKeyArray, PyTree

from vijax.families import Product
from vijax.families.base import require
from vijax.message.base import MessageRule, gradient_rule


def mixed(default: MessageRule, **named: MessageRule) -> MessageRule:
    """`default` for all globals but those named, which follow rules of their own.

    Each rule says where its globals stand (mean statistics, a mode, a draw); one gradient there serves all of them.

    Raises:
      ValueError: a rule that does more than take that gradient (`ssvi`, which applies V); or, when used, a name that is
        no global.

    >>> import vijax as vi
    >>> rule = mixed(vi.message.mean_field(), weights=vi.message.maximum_likelihood())
    >>> rule.name
    'mean_field, weights: mle'
    """
    for rule in (default, *named.values()):
        require(rule.at is not None, "mixed", "rules that are a gradient at one place", rule.name, "Use ssvi_a.")

    def by_rule(q: Product) -> dict[MessageRule, Product]:
        require(set(named) <= set(q), "mixed", f"names among the globals {list(q)}", sorted(set(named) - set(q)))
        groups: dict[MessageRule, list[str]] = {}
        for name in q:
            groups.setdefault(named.get(name, default), []).append(name)
        return {rule: q.only(names) for rule, names in groups.items()}

    def at(key: PRNGKeyArray, q: Product) -> PyTree:
        parts = by_rule(q)
        keys = jax.random.split(key, len(parts))
        return _merged(rule.at(k, part) for (rule, part), k in zip(parts.items(), keys, strict=True))  # type: ignore[misc]

    def penalty(q: Product, prior: Product) -> Any:
        return sum(rule.penalty(part, prior.only(part)) for rule, part in by_rule(q).items())

    def prior(p: Product) -> Product:
        return _replaced(p, [rule.prior(part) for rule, part in by_rule(p).items()])

    def point(q: Product) -> PyTree:
        return _merged(rule.point(part) for rule, part in by_rule(q).items())

    name = ", ".join([default.name, *(f"{n}: {rule.name}" for n, rule in named.items())])
    forgets = any(rule.forgets_prior for rule in (default, *named.values()))
    is_point = lambda name: named.get(name, default).is_point(name)
    return gradient_rule(at, prior, penalty, point, name, forgets, is_point)


def _merged(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {name: stats for part in parts for name, stats in part.items()}


def _replaced(p: Product, parts: list[Product]) -> Product:
    for part in parts:
        p = p.replace(part)
    return p
