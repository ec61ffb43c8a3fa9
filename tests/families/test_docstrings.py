"""What the docstring of a family says of its density is computed, and compared with what the family computes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln

from tests.cases import FAMILIES
from vijax.families import Family, PolyaGamma, Product

KEY = jax.random.key(0)
FORM = re.compile(
    r"log h\((?P<args>[\w, ]+)\) = (?P<h>[^;]+);\s+t = (?P<t>\([^;]+\));\s+natural parameters (?P<eta>\(.+?\))\.\s",
    flags=re.DOTALL,
)
CASES = [case for case in FAMILIES if not case.extreme and type(case.build()) is not Product]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Names(dict):
    """The names of formulas: functions, and all that the family says of itself, methods without arguments included."""

    def __init__(self, q: Family, **values):
        super().__init__(log=jnp.log, sum=jnp.sum, outer=jnp.outer, inv=jnp.linalg.inv, **values)
        self.q = q

    def __missing__(self, name):
        if name in SPECIAL:
            return lambda *args, **kwargs: SPECIAL[name](self.q, *args, **kwargs)
        found = getattr(self.q, name)
        return found() if callable(found) else found


def pairs(q, x):
    """Of which state follows which, in all or at each step."""
    each = one_hot(q, x[:-1])[:, :, None] * one_hot(q, x[1:])[:, None, :]
    return jnp.sum(each, 0) if q.transition.ndim == 2 else each


def one_hot(q, x):
    return jax.nn.one_hot(x, q.num_states if hasattr(q, "num_states") else q.num_classes)


SPECIAL = {
    "one_hot": one_hot,
    "pairs": pairs,
    "gammaln": lambda q, x: gammaln(jnp.asarray(x, float)),
    "logdet": lambda q, x: jnp.linalg.slogdet(x)[1],
    "outers": lambda q, x, y: x[:, :, None] * y[:, None, :],
    "log_prob": lambda q, x, c: PolyaGamma.from_b_c(q.b, float(c)).log_prob(x),
}


def said(cls):
    found = FORM.search(cls.__doc__ + "\n")
    assert found, f"{cls.__name__}: log h(x) = ...;  t = (...);  natural parameters (...)."
    return {name: " ".join(text.split()) for name, text in found.groupdict().items()}


@each_case
def test_the_density_is_the_one_that_the_docstring_states(case):
    """log p = log h + <eta, t> - A, each by the formula in words; of the first member, at a draw."""
    with jax.enable_x64(True):
        batch = case.build()
        q = jax.tree.map(lambda leaf: leaf[0], batch)
        text, x = said(type(q)), q.sample(KEY)
        args = text["args"].split(", ")
        values = dict(zip(args, x if isinstance(x, tuple) else (x,), strict=True))
        compute = lambda name, names: eval(text[name], {"__builtins__": {}}, names)  # of our own docstrings
        base, stats = (compute(name, Names(q, **values)) for name in ("h", "t"))
        eta = compute("eta", Names(q))
        for mine, own in ((stats, q.stats(x)), (eta, jax.tree.leaves(q)[: len(eta)])):
            for one, other in zip(mine, jax.tree.leaves(own), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(base, q.log_base_measure(q.stats(x)), rtol=1e-9, atol=1e-12)
        product = sum(jnp.sum(jnp.asarray(e) * jnp.asarray(t)) for e, t in zip(eta, stats, strict=True))
        np.testing.assert_allclose(base + product - q.log_normalizer(), q.log_prob(x), rtol=1e-8, atol=1e-9)


def test_formulas_are_read_as_they_stand():
    text = said(FAMILIES[0].build().__class__)
    assert text == {"args": "x", "h": "-log(x)", "t": "(log(x), x)", "eta": "(shape, -rate)"}
