"""Rankings: the best items and their scores, against loops over users; what is hidden; wrong
input."""

import numpy as np
import pytest
import scipy.sparse as sp

from vijax.evaluate import hide, ranked, ranking

RNG = np.random.default_rng(0)
USERS, ITEMS = RNG.gamma(0.5, size=(30, 4)), RNG.gamma(0.5, size=(25, 4))
TAKEN = RNG.poisson(0.3, (30, 25))
TAKEN[0] = 1  # has everything
HIDDEN = np.where(TAKEN > 0, 0, RNG.poisson(0.4, (30, 25)))
HIDDEN[3] = 0


def by_hand(user, n):
    """(best items, recall, NDCG) of a user, by the definitions."""
    scores = {i: USERS[user] @ ITEMS[i] for i in range(25) if TAKEN[user, i] == 0}
    best = sorted(scores, key=lambda i: -scores[i])[:n]
    wanted = set(np.flatnonzero(HIDDEN[user]))
    gain = sum(1 / np.log2(place + 2) for place, i in enumerate(best) if i in wanted)
    most = sum(1 / np.log2(place + 2) for place in range(min(n, len(wanted))))
    return best, len(wanted & set(best)) / max(1, min(n, len(wanted))), gain / (most or 1)


@pytest.mark.parametrize("n", [1, 5, 25])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_scores_of_rankings_are_those_of_loops(n, form):
    found, score = (
        ranked(USERS, ITEMS, form(TAKEN), n),
        ranking(USERS, ITEMS, form(TAKEN), form(HIDDEN), n),
    )
    with_hidden = [user for user in range(30) if HIDDEN[user].any()]
    np.testing.assert_array_equal(score.users, with_hidden)
    for user in range(30):
        best, recall, ndcg = by_hand(user, n)
        row = found.items[user]
        assert row[row >= 0].tolist() == best
        assert np.all(np.isneginf(found.scores[user][row < 0]))
        if user in with_hidden:
            place = with_hidden.index(user)
            np.testing.assert_allclose([score.recalls[place], score.ndcg[place]], [recall, ndcg])
    np.testing.assert_allclose(score.mean, score.ndcg.mean())
    assert f"NDCG@{n}, recall@{n}" in str(score)
    assert 0 < score.recall <= 1


def test_hidden_entries_are_a_share_of_those_of_each_user():
    rows = sp.csr_array(TAKEN)
    kept, hidden = hide(rows, 0.25, seed=1)
    np.testing.assert_array_equal((kept + hidden).toarray(), TAKEN)
    lengths, gone = (TAKEN > 0).sum(1), (hidden.toarray() > 0).sum(1)
    np.testing.assert_array_equal(
        gone[lengths > 1], np.maximum(1, np.round(0.25 * lengths))[lengths > 1]
    )
    assert not np.any(gone[lengths < 2])
    assert (hide(rows, 0.25, seed=2)[1] != hidden).nnz > 0


WRONG = {
    "items: expected vectors": lambda: ranked(USERS, ITEMS[:, :2]),
    "taken: expected a matrix of 30 users and 25 items": lambda: ranked(USERS, ITEMS, TAKEN[:5]),
    "n: expected at most the 25 items": lambda: ranked(USERS, ITEMS, n=26),
    "n: expected": lambda: ranking(USERS, ITEMS, TAKEN, HIDDEN, n=0),
    "hidden: expected users with hidden items": lambda: ranking(
        USERS, ITEMS, TAKEN, np.zeros_like(TAKEN)
    ),
    "share: expected": lambda: hide(TAKEN, 1.0),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_is_named(message):
    with pytest.raises(ValueError, match=message):
        WRONG[message]()
