"""What the docstring of a family says of its density is computed, and compared with what the family
computes."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln

from tests.cases import FAMILIES, Recipe, paths, spd
from vijax.families import (
    Bernoulli,
    Beta,
    Categorical,
    CoefficientsPrecision,
    Dirichlet,
    Family,
    Gamma,
    InverseGamma,
    InverseWishart,
    LinearGaussianChain,
    MarkovChain,
    MatrixNormalWishart,
    MatrixPrecision,
    MeanPrecision,
    Multinomial,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalsWishart,
    NormalWishart,
    Poisson,
    PolyaGamma,
    Product,
    TruncatedNormal,
    Wishart,
)

FORM = re.compile(
    r"log h\((?P<args>[\w, ]+)\) = (?P<h>[^;]+);\s+t = (?P<t>\([^;]+\));\s+natural parameters "
    r"(?P<eta>\(.+?\))\.\s",
    flags=re.DOTALL,
)
CASES = [case for case in FAMILIES if not case.extreme and type(case.build()) is not Product]
SPD = spd(0, 1, 3)[0]
ANY = np.random.default_rng(0).normal(size=(3, 3))
# one of each family: programs that draw take longer to compile than all that is compared
VALUES = {
    Bernoulli: 1,
    Beta: 0.3,
    Categorical: 2,
    Dirichlet: np.array([0.1, 0.25, 0.2, 0.45]),
    Gamma: 1.7,
    InverseGamma: 0.6,
    InverseWishart: SPD,
    LinearGaussianChain: ANY[:, :2],
    MatrixNormalWishart: MatrixPrecision(ANY[:, :2], SPD[:2, :2]),
    Multinomial: np.array([3, 0, 2]),
    MultivariateNormal: ANY[0],
    MultivariateNormalGamma: CoefficientsPrecision(ANY[0], 1.7),
    Normal: -0.7,
    NormalGamma: MeanPrecision(-0.7, 1.7),
    NormalWishart: MeanPrecision(ANY[0], SPD),
    NormalsWishart: MeanPrecision(ANY[:, :2], SPD[:2, :2]),
    Poisson: 4,
    PolyaGamma: 0.4,
    Recipe: 1.7,
    TruncatedNormal: 0.8,
    Wishart: SPD,
}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Names(dict):
    """The names of formulas: functions, and all that the family says of itself, methods without
    arguments included."""

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


def value(q: Family):
    return paths(q.num_states, q.num_steps)[5] if isinstance(q, MarkovChain) else VALUES[type(q)]


@each_case
def test_the_density_is_the_one_that_the_docstring_states(case):
    """log p = log h + <eta, t> - A, each by the formula in words; of the first member, at one
    value."""
    with jax.enable_x64(True):
        q = jax.tree.map(lambda leaf: np.asarray(leaf)[0], case.build())
        text, x = said(type(q)), jax.tree.map(jnp.asarray, value(q))
        args = text["args"].split(", ")

        @jax.jit
        def both(q, x):
            """What the formulas say, and the family: log h, t, eta; and log p less A and with
            it."""
            values = dict(zip(args, x if isinstance(x, tuple) else (x,), strict=True))
            compute = lambda name, names: eval(
                text[name], {"__builtins__": {}}, names
            )  # of our own docstrings
            base, stats = (compute(name, Names(q, **values)) for name in ("h", "t"))
            eta = compute("eta", Names(q))
            product = sum(
                jnp.sum(jnp.asarray(e) * jnp.asarray(t)) for e, t in zip(eta, stats, strict=True)
            )
            own = q.stats(x)
            leaves = jax.tree.leaves(q)[: len(eta)]
            return (
                (base, stats, eta, base + product - q.log_normalizer()),
                (q.log_base_measure(own), jax.tree.leaves(own), leaves, q.log_prob(x)),
            )

        (base, stats, eta, log_p), (own_base, own_stats, own_eta, own_log_p) = both(q, x)
        for mine, own in ((stats, own_stats), (eta, own_eta)):
            for one, other in zip(mine, own, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(base, own_base, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(log_p, own_log_p, rtol=1e-8, atol=1e-9)


def test_formulas_are_read_as_they_stand():
    text = said(FAMILIES[0].build().__class__)
    assert text == {"args": "x", "h": "-log(x)", "t": "(log(x), x)", "eta": "(shape, -rate)"}
