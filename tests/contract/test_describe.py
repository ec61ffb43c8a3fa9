"""What a notebook shows of models, algorithms and fits; what `dir(vijax)` shows."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import vijax as vi

LDA = vi.models.lda(num_topics=5, vocab_size=100, alpha=0.1)
COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
X = np.linspace(-2.0, 2.0, 9)[:, None]
GLM = vi.models.glm(X, np.sign(X[:, 0] + 0.1), vi.likelihood.bernoulli_logit())


@pytest.mark.parametrize(
    ("thing", "parts"),
    [
        (
            LDA,
            [
                "Model of documents over 100 words",
                "topics: Dirichlet, batch shape (5,), 500 numbers",
                "alpha=0.1",
            ],
        ),
        (COIN, ["Model", "bias: Beta, 2 numbers"]),
        (GLM, ["z: SitePosterior, 18 numbers", "prior_scale=1"]),
        (
            vi.ssvi_a(LDA),
            [
                "Algorithm: ssvi_a",
                "robbins_monro(scale=1.0, offset=1.0, kappa=0.6)",
                "topics: Dirichlet",
            ],
        ),
        (vi.cavi(COIN), ["Algorithm: cavi", "in whole()", "bias: Beta"]),
        (vi.ssvi_a(LDA).spec, ["update=kl()", "penalty_every=10"]),
        (
            vi.pg_svi(GLM),
            ["Algorithm: pg_svi", "by_share(backtracking, third_of_the_way)", "z: SitePosterior"],
        ),
        (vi.pg_svi(GLM).spec, ["update=kl()"]),
        (
            vi.svi(LDA, update=vi.update.descend(optax.adam(0.1)), learn=("alpha", "eta")).spec,
            ["descend(optimizer=GradientTransformationExtraArgs", "learn=(alpha, eta)"],
        ),
    ],
)
def test_a_few_lines_without_addresses(thing, parts):
    shown = repr(thing)
    for part in parts:
        assert part in shown
    assert "0x" not in shown
    assert "<function" not in shown
    assert len(shown.splitlines()) <= 8
    assert max(map(len, shown.splitlines())) <= 122


def test_a_fit_says_how_it_ended_and_what_was_found():
    fit = vi.fit(vi.cavi(COIN), jnp.array([1.0, 1.0, 0.0, 1.0]), key=jax.random.key(0), num_steps=2)
    objective = f"{float(fit.trace['elbo'][-1]):.6g}"
    assert repr(fit).splitlines() == [
        "Fit by cavi: finished: all steps were run",
        f"  2 steps; objective {objective} at the last",
        "  bias: Beta, 2 numbers",
    ]
    assert repr(fit._replace(trace={})).splitlines()[1] == "  2 steps"


def test_a_fit_of_sites():
    fit = vi.fit(vi.pg_svi(GLM), GLM.data, key=jax.random.key(0), num_steps=1)
    assert "z: SitePosterior, 18 numbers" in repr(fit)


# --- names ----------------------------------------------------------------------------------------
def test_dir_is_what_is_exported_and_help_has_it_by_group():
    """Families are in `vi.families`, and by their own names too."""
    groups = vi.__doc__.split("The names by group:")[1]
    names = re.sub(r"(?m)^\w[\w ',-]*:|\(.*?\)|of any density|of networks", "", groups)
    named = re.findall(r"[A-Za-z_]\w*", names)
    assert sorted(named) == dir(vi)
    assert (
        set(dir(vi))
        < set(vi.__all__)
        == set(dir(vi)) | {name for name in vi.__all__ if hasattr(vi.families, name)}
    )
    assert len(set(vi.__all__)) == len(vi.__all__)


def test_whatever_the_readme_uses_is_exported():
    from tests.house.test_readme import README

    used = set(re.findall(r"\bvi\.(\w+)", README)) | set(
        re.findall(r"from vijax\.(\w+) import", README)
    )
    assert used <= set(vi.__all__)


ON_FIRST_USE = """
import sys, vijax
assert not {"vijax.evaluate.plots", "vijax.fitting.checkpoint", "vijax.sklearn"} & set(sys.modules)
assert not {"scipy.stats", "scipy.optimize", "matplotlib", "pandas"} & set(sys.modules)  # as long to import as JAX
for name in vijax.__all__:
    getattr(vijax, name)
assert vijax.plots is sys.modules["vijax.evaluate.plots"]
try:
    vijax.nothing_of_the_kind
except AttributeError as error:
    print(error)
"""


def test_the_rest_is_imported_on_first_use():
    done = subprocess.run(
        [sys.executable, "-c", ON_FIRST_USE], capture_output=True, text=True, check=False
    )
    assert done.stdout == "module 'vijax' has no attribute 'nothing_of_the_kind'\n", done.stderr
