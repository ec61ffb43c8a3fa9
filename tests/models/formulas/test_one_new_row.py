"""A new row alone that lacks a cell is one that was not seen, as it is among others: the prior of
the chain answers."""

import jax
import numpy as np
import pytest

import vijax as vi

KEY = jax.random.key(0)
Y = np.repeat([[-1.0, 0.5], [1.0, -0.5], [-1.0, 0.5], [1.0, -0.5]], 6, axis=0)
Y = Y + 0.3 * np.random.default_rng(0).normal(size=Y.shape)
TRAINING = Y[None], np.ones((1, len(Y)), bool)
ALONE = np.array([[[np.nan, 1.0]]]), np.ones((1, 1), bool)
AMONG = np.array([[[np.nan, 1.0]], [[0.5, 1.0]]]), np.ones((2, 1), bool)
MODELS = {
    "hmm": (lambda: vi.models.hmm(vi.models.emission.diagonal_gaussian(2, 2)), "z"),
    "factorial_hmm": (lambda: vi.models.factorial_hmm(2, 2, 2), "z1"),
    "arhmm": (lambda: vi.models.arhmm(2, 2), "z"),
}
# A hidden Markov model says that it does not read the other cell.
pytestmark = pytest.mark.filterwarnings("ignore:.*lack only some count as not seen")


@pytest.mark.parametrize("name", MODELS)
def test_a_row_that_lacks_a_cell_is_answered_alone_as_among_others(name):
    make, local = MODELS[name]
    alg = vi.cavi(make())
    fit = vi.fit(alg, TRAINING, num_steps=3, key=KEY)
    alone, among = (np.asarray(fit.locals(data, key=KEY)[local].probs) for data in (ALONE, AMONG))
    np.testing.assert_allclose(alone[0], among[0], rtol=1e-5)
    assert alone.sum() == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(
        ValueError, match=r"^data: expected (a step without NaN|a sequence with 2 steps in a row)"
    ):
        vi.fit(alg, ALONE, num_steps=1, key=KEY)


@pytest.mark.parametrize("name", MODELS)
def test_such_a_row_is_possible_and_nothing_to_learn_from(name):
    form = MODELS[name][0]().form
    form.check(ALONE)
    form.enough(TRAINING)
    with pytest.raises(
        ValueError, match=r"^data: expected (a step without NaN|a sequence with 2 steps in a row)"
    ):
        form.enough(ALONE)
