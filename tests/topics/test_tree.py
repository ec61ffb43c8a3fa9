"""The tree of topics, against a search by brute force."""

import itertools

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.topics import topic_tree

RNG = np.random.default_rng(3)
TOPICS = RNG.dirichlet(np.full(15, 0.3), 7)
SHARES = RNG.dirichlet(np.ones(7))


def information(groups, shares=SHARES):
    """The mutual information of group and word, nats, by the sums."""
    joint = np.array([sum(shares[k] * TOPICS[k] for k in group) for group in groups])
    product = joint.sum(1, keepdims=True) * joint.sum(0)
    held = joint > 0
    return float((joint[held] * np.log(joint[held] / product[held])).sum())


def test_each_step_loses_least():
    tree = topic_tree(TOPICS, SHARES)
    groups = [[k] for k in range(7)]
    whole = information(groups)
    for step in range(6):
        pairs = list(itertools.combinations(range(len(groups)), 2))
        joined = [
            [group for i, group in enumerate(groups) if i not in pair]
            + [groups[pair[0]] + groups[pair[1]]]
            for pair in pairs
        ]
        groups = max(joined, key=information)
        assert tree.losses[step] == pytest.approx(whole - information(groups), abs=1e-12)
        assert tree.groups(6 - step) == sorted(sorted(group) for group in groups)
    assert tree.total == pytest.approx(whole)
    assert sorted(tree.order) == list(range(7))


def test_the_text_has_every_topic_once_under_its_joins():
    tree = topic_tree(TOPICS, SHARES)
    lines = tree.text([f"topic {k}" for k in range(7)]).splitlines()
    assert len(lines) == 13
    assert lines[0] == "100 %"
    assert [int(line[-1]) for line in lines if "topic" in line] == tree.order


def test_wrong_trees_are_told():
    with pytest.raises(ValueError, match=naming("topics:", "matrix", "(1, 15)")):
        topic_tree(TOPICS[:1])
    with pytest.raises(ValueError, match=naming("topics:", "rows of zeros")):
        topic_tree(np.vstack([TOPICS, np.zeros(15)]))
    with pytest.raises(ValueError, match="shares: expected 7 numbers"):
        topic_tree(TOPICS, SHARES[:3])
    with pytest.raises(ValueError, match="number: expected at most 7"):
        topic_tree(TOPICS).groups(8)
    with pytest.raises(ValueError, match="labels: expected one for each of 7"):
        topic_tree(TOPICS).text(["a"])


def test_groups_are_edits():
    alg = vi.svi(vi.models.lda(7, 15))
    topics = vi.Dirichlet(np.float32(100 * TOPICS + 0.01))
    state = alg.init(jax.random.key(0))._replace(posterior=vi.Product({"topics": topics}))
    fit = vi.Fit(alg, state, {}, None)
    groups = topic_tree(TOPICS).groups(3)
    edited = vi.edit_topics(fit, merge=[group for group in groups if len(group) > 1])
    assert sorted(map(sorted, edited.groups)) == groups
