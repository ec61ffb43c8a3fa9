"""Which algorithms take which ready models is as docs/what-is-here.md says, under its table of
models."""

import re
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from vijax.models import emission

PAGE = (Path(__file__).parents[2] / "docs" / "what-is-here.md").read_text()
ROWS = vi.em, vi.map, vi.cavi, vi.svi, vi.ssvi, vi.ssvi_a
REFUSED = {
    "dtm": ["em", "map"],
    "hdp_hmm": ["em", "map"],
    "hpf": ["em"],
    "ard_regression": ["em"],
    "factorial_hmm": ["em"],
}
NORMALS = emission.diagonal_gaussian(2, dim=2)
GIVEN = {
    "lda": (2, 9),
    "hdp": (2, 9),
    "ctm": (2, 9),
    "stm": (2, vi.data.lda_corpus(20, 2, 9, 10.0)[0]),
    "dtm": (2, vi.data.lda_corpus(20, 2, 9, 10.0)[0], np.arange(20) % 4),
    "plsa": (2, 4, 9),
    "simple_mixture": (2, 9),
    "mixture": (NORMALS,),
    "dp_mixture": (NORMALS,),
    "hmm": (NORMALS,),
    "factorial_hmm": (2, 2, 2),
    "arhmm": (2, 2),
    "hdp_hmm": (NORMALS,),
    "slds": (2, 2, 2),
    "recurrent_slds": (2, 2, 2),
    "stochastic_block_model": (2,),
    "linear_gaussian_state_space": (2, 2),
    "factor_analysis": (3, 2),
    "gap_nmf": (2, 3),
    "hpf": (2, 5),
    "ard_regression": (3,),
    "hierarchical_linear_regression": (2,),
    "hierarchical_probit_regression": (2,),
    "multilevel_logistic_regression": (2,),
}

X, Y = np.linspace(0.0, 3.0, 6)[:, None], np.array([-1.0, 1.0] * 3)
LINEAR = lambda w, x: x @ w
LATER = {
    "gp": (X, Y, lambda a, b: jnp.exp(-0.5 * (a - b.T) ** 2), vi.likelihood.bernoulli_logit()),
    "glm": (X, Y, vi.likelihood.gaussian(1.0)),
    "logistic_regression": (X, Y),
    "glmm": ("y ~ x + (1 | g)", {"y": Y, "x": X[:, 0], "g": np.arange(6) % 3}),
    "vae": (
        (lambda w, x: (x @ w, -np.ones(1)), np.ones((3, 1))),
        (LINEAR, np.ones((1, 3))),
        vi.models.observed.gaussian(sd=0.1),
        1,
    ),
    "density": ({"x": vi.free()}, lambda values: -(values["x"] ** 2)),
}
SAID = {"gp": vi.pg_svi, "glm": vi.pg_svi, "logistic_regression": vi.pg_svi, "vae": vi.aevb}


def test_the_rows_up_to_those_of_gp_are_these():
    table = PAGE[PAGE.index("| `lda` |") : PAGE.index("| `gp` |")]
    firsts = [line.split("|")[1] for line in table.strip().splitlines()]
    assert [name for first in firsts for name in re.findall(r"`([a-z_]+)`", first)] == list(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
def test_a_model_is_taken_by_all_but(name):
    model, refused = getattr(vi.models, name, None) or getattr(vi, name), []
    made = model(*GIVEN[name])
    for row in ROWS:
        try:
            row(made)
        except ValueError:
            refused.append(row.__name__)
    assert refused == REFUSED.get(name, [])


@pytest.mark.parametrize("name", LATER)
def test_later_rows_take_what_is_said_of_them(name):
    """And those of predictors and of free variables refuse points."""
    model = (getattr(vi.models, name, None) or getattr(vi, name))(*LATER[name])
    for row in [SAID[name]] if name in SAID else [vi.ngvi, vi.advi]:
        row(model)
    if name != "vae":
        for row in vi.em, vi.map:
            with pytest.raises(ValueError, match="estimand: expected a distribution"):
                row(model)
