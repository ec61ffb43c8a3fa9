"""Sizes that memory does not hold are refused before anything is allocated: by every model that has
sizes."""

import inspect
import typing

import jax
import numpy as np
import pytest

import vijax as vi
from tests.models.test_registry import makers
from tests.naming import naming
from vijax.arguments import Size, read_arguments
from vijax.contract import room
from vijax.contract.model import Model
from vijax.data.loader import as_loader
from vijax.fitting.room import check_room
from vijax.models import emission
from vijax.models.emission import Emission

HUGE = 10**9
FREE = 1 << 30
SIZES = {
    vi.models.lda: {"num_topics": HUGE, "vocab_size": 11},
    vi.models.hdp: {"num_topics": HUGE, "vocab_size": 11},
    vi.models.ctm: {"num_topics": 10**6, "vocab_size": 11},
    vi.models.dtm: {"num_topics": HUGE, "corpus": np.eye(3, 11), "times": np.arange(3)},
    vi.models.simple_mixture: {"num_topics": HUGE, "vocab_size": 11},
    vi.models.plsa: {"num_topics": HUGE, "num_documents": 7, "vocab_size": 11, "form": "joint"},
    vi.models.hpf: {"num_components": 5, "num_items": HUGE},
    vi.models.gap_nmf: {"num_rows": 5, "num_components": HUGE},
    vi.models.factor_analysis: {"dim": 5, "num_factors": 10**6},
    vi.models.stochastic_block_model: {"num_blocks": 10**6},
    vi.models.arhmm: {"dim": 5, "num_states": 10**6},
    vi.models.factorial_hmm: {"dim": 5, "num_chains": 2, "num_states": 10**6},
    vi.models.linear_gaussian_state_space: {"dim": 5, "num_states": 10**6},
    vi.models.slds: {"dim": 5, "num_states": 10**6, "latent_dim": 2},
    vi.models.recurrent_slds: {"dim": 5, "num_states": 3, "latent_dim": 10**6},
    vi.models.ard_regression: {"dim": 10**6},
    vi.models.hierarchical_linear_regression: {"dim": 10**6},
    vi.models.hierarchical_probit_regression: {"dim": 10**6},
    vi.models.multilevel_logistic_regression: {"dim": 10**6},
    **{
        make: {"num_components": HUGE, "dim": 5}
        for make in (emission.unit_gaussian, emission.diagonal_gaussian)
    },
    **{
        make: {"num_components": 5, "dim": 10**6}
        for make in (emission.full_gaussian, emission.tied_gaussian)
    },
    **{make: {"num_components": HUGE, "dim": 5} for make in (emission.bernoulli, emission.poisson)},
    emission.spherical_gaussian: {"num_components": HUGE, "dim": 5},
    emission.categorical: {"num_components": HUGE, "vocab_size": 5},
}
OF_USERS = {"vae", "svae", "dynamic_svae"}
"""Their networks are made by the user, and are of the same sizes."""


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(room, "free_bytes", lambda: FREE)


def has_sizes(make):
    hints = typing.get_type_hints(inspect.unwrap(make), include_extras=True)
    return any(hint == Size for hint in hints.values())


def test_every_model_with_sizes_has_a_row():
    of_models = [
        getattr(vi.models, name) for name in makers(vi.models, Model) if name not in OF_USERS
    ]
    of_emissions = [getattr(emission, name) for name in makers(emission, Emission)]
    assert {make for make in (*of_models, *of_emissions) if has_sizes(make)} - {
        emission.placed
    } <= set(SIZES)


@pytest.mark.parametrize("make", SIZES, ids=lambda make: make.__name__)
def test_what_memory_does_not_hold_is_refused(make, small_memory):
    """1,000,000,000 components ended the process."""
    sizes = SIZES[make]
    name = max((one for one in sizes if isinstance(sizes[one], int)), key=lambda one: sizes[one])
    expected = f"^{name}: expected sizes that fit in 1 GiB of free memory"
    said = rf"{expected}, got {sizes[name]:,}[^,]*, which would take about [\d.,]+ GiB"
    with pytest.raises(ValueError, match=said):
        make(**sizes)


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (vi.models.lda, {"num_topics": 20, "vocab_size": 30}),
        (vi.models.ctm, {"num_topics": 20, "vocab_size": 30}),
        (vi.models.hpf, {"num_components": 18, "num_items": 40}),
        (emission.full_gaussian, {"num_components": 21, "dim": 17}),
    ],
)
def test_what_is_told_is_what_it_takes(make, sizes):
    """The numbers of a model of these sizes, learnt from smaller ones."""
    assert set(sizes) <= set(read_arguments(make))
    told = room._count_parameters(make, sizes, sizes)
    assert told == room._prior_size(make(**sizes)) > 300


def test_transitions_are_counted(small_memory):
    for make in (vi.models.hmm, vi.models.hdp_hmm):
        with pytest.raises(ValueError, match=naming("emission:", "1 GiB", "20,000 states")):
            make(emission.poisson(20_000, 1))


def test_arrays_of_the_size_of_an_argument_are_no_obstacle(small_memory):
    location = np.zeros(60_000)
    assert emission.unit_gaussian(2, 60_000, location=location).prior.mean().shape == (2, 60_000)


def test_locals_are_counted(monkeypatch):
    """The probabilities of 100,000 components in each of 10,000 rows."""
    rows = np.zeros((10_000, 1), np.float32)
    algorithm = vi.cavi(vi.models.mixture(emission.unit_gaussian(100_000, 1)))
    monkeypatch.setattr(room, "free_bytes", lambda: FREE)
    with pytest.raises(
        ValueError, match=naming("batch_size:", "1 GiB", "10,000 groups", "100,000", "3")
    ):
        vi.fit(algorithm, rows, num_steps=1, key=jax.random.key(0))
    small = as_loader(rows, algorithm.spec.model, 100, 0)
    check_room(algorithm.spec.model, small)  # the remedy
