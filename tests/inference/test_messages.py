"""What a wrong argument is told: a table of what was written, the error, and what its message must
hold."""

import numpy as np
import pytest

import vijax as vi

GAUSSIAN = vi.models.emission.unit_gaussian(2, dim=1)
X = np.zeros((3, 1))
QUOTES = "Write the number without quotes."

TABLE = {
    # A number in quotes, wherever a positive number is wanted.
    "lda alpha": (
        lambda: vi.models.lda(3, 9, alpha="0.1"),
        ["alpha: expected a positive number, got the string '0.1'", QUOTES],
    ),
    "lda eta": (lambda: vi.models.lda(3, 9, eta="0.1"), ["eta:", "'0.1'", QUOTES]),
    "ctm eta": (lambda: vi.models.ctm(3, 9, eta="0.1"), ["eta:", "'0.1'", QUOTES]),
    "plsa alpha": (
        lambda: vi.models.plsa(3, 4, 5, alpha="2"),
        ["alpha: expected a positive number", QUOTES],
    ),
    "mixture concentration": (
        lambda: vi.models.mixture(GAUSSIAN, concentration="1"),
        ["concentration:", QUOTES],
    ),
    "mixture weights": (lambda: vi.models.mixture(GAUSSIAN, weights="1"), ["weights:", QUOTES]),
    "dp_mixture": (
        lambda: vi.models.dp_mixture(GAUSSIAN, concentration="1"),
        ["concentration:", QUOTES],
    ),
    "hmm": (
        lambda: vi.models.hmm(GAUSSIAN, transition_concentration="1"),
        ["transition_concentration:", QUOTES],
    ),
    "gap_nmf": (
        lambda: vi.models.gap_nmf(4, num_components=3, a="1"),
        ["a: expected a positive number", QUOTES],
    ),
    "gap_nmf array": (
        lambda: vi.models.gap_nmf(4, num_components=3, a=[1.0, 2.0]),
        ["a: expected one number"],
    ),
    "ard": (lambda: vi.models.ard_regression(2, shape="1"), ["shape:", QUOTES]),
    "ppca": (
        lambda: vi.models.factor_analysis(3, 2, loading_precision="1"),
        ["loading_precision:", QUOTES],
    ),
    "glm": (
        lambda: vi.models.glm(X, X[:, 0], vi.likelihood.poisson_log(), prior_scale="1"),
        ["prior_scale:", QUOTES],
    ),
    "student t": (lambda: vi.likelihood.student_t("4", 1.0), ["degrees:", QUOTES]),
    "negative binomial": (lambda: vi.likelihood.negative_binomial("4"), ["dispersion:", QUOTES]),
    "step size": (lambda: vi.step_size.robbins_monro(scale="1"), ["scale:", QUOTES]),
    "family": (
        lambda: vi.Gamma.from_shape_rate("2", 3.0),
        ["expected numbers", "the string '2'", QUOTES],
    ),
    "family None": (lambda: vi.Dirichlet.from_concentration(None), ["expected numbers, got None."]),
    "family list": (lambda: vi.Gamma.from_shape_rate(["2"], 3.0), ["expected numbers, got ['2']."]),
    "family array": (
        lambda: vi.Gamma.from_shape_rate(np.array(["2"]), 3.0),
        ["expected numbers, got array("],
    ),
    "not positive": (
        lambda: vi.step_size.robbins_monro(scale=-1.0),
        ["scale: expected a positive number, got -1.0."],
    ),
    "not finite": (
        lambda: vi.likelihood.gaussian(np.inf),
        ["variance: expected a positive number, got inf."],
    ),
    # The size belongs to the emission.
    "mixture size": (
        lambda: vi.models.mixture(num_components=3),
        ["num_components", "arguments of the emission", "full_gaussian(num_components=3, dim=2)"],
    ),
    "mixture of nothing": (
        lambda: vi.models.mixture(),
        ["emission: expected an emission", "got None"],
    ),
    "mixture of a number": (
        lambda: vi.models.mixture(3),
        ["emission: expected an emission", "got 3"],
    ),
    "hmm size": (lambda: vi.models.hmm(num_states=3), ["num_states", "full_gaussian("]),
    "dp_mixture size": (
        lambda: vi.models.dp_mixture(dim=3),
        ["unexpected argument dim", "full_gaussian("],
    ),
    # Labels.
    "labels": (
        lambda: vi.models.logistic_regression(X, np.array([0.0, 1.0, 1.0])),
        ["-1 or +1"],
    ),
}


@pytest.mark.parametrize(("wrong", "parts"), TABLE.values(), ids=TABLE)
def test_message(wrong, parts):
    with pytest.raises((ValueError, TypeError)) as error:
        wrong()
    for part in parts:
        assert part in str(error.value)
    assert len(str(error.value)) < 400
