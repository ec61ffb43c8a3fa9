"""A fit whose topics are split over devices is the fit on one device, and no device holds a table
of all topics."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.mesh_cases import lda
from tests.naming import naming
from tests.scale.test_mesh import process_of
from vijax.scale.by_topic import find_tables
from vijax.scale.devices import _require_whole_processes, check_mesh

KEY = jax.random.key(0)


def on_devices(code, **settings):
    return process_of(f"from tests.topic_cases import *\n{code}", **settings).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["lda", "hdp", "ctm", "hpf"])
def test_a_fit_is_that_of_one_device(name, lazy):
    """On 2 x 4 and 1 x 2 devices; and its tables stay there."""
    for line in on_devices(f"report_fits({name!r}, {lazy})"):
        distance, parts = line.split(" ", 1)
        assert float(distance) < 1e-10, line
        assert parts.count("'topics'") >= 1, line


@pytest.mark.slow
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["lda", "hdp", "ctm", "hpf"])
def test_no_table_is_gathered(name, lazy):
    """In the compiled text of a start and of a step, neither of all words nor of those of a
    batch."""
    assert on_devices(f"report_sends({name!r}, {lazy})") == ["[0, 0]"] * 2


def test_lda_in_float32():
    """One case of the above that is quick: of rounding to 24 bits."""
    code = "alg = algorithm('lda', False)\n"
    code += "print(apart(fit(alg, None), fit(alg, vi.scale.mesh(data=2, topics=4)))[0])"
    (distance,) = on_devices(code, x64=False)
    assert float(distance) < 1e-5


@pytest.mark.slow
def test_a_checkpoint_is_written_by_parts_and_goes_on_on_any_mesh(tmp_path):
    files, *ends, last = on_devices(f"report_checkpoints({str(tmp_path)!r})")
    assert [name.partition("-")[2] for name in files.split()] == [
        f"{first:012d}.npz" for first in (0, 2, 4, 6)
    ]
    assert len(ends) == 4
    assert max(map(float, ends)) < 1e-10
    distance, devices = last.split()
    assert float(distance) < 1e-10
    assert devices == "1"


@pytest.mark.slow
def test_top_words_are_found_where_topics_lie():
    assert on_devices("report_top_words()") == ["True", "True"]


# --- in this process ------------------------------------------------------------------------------
def test_tables_are_found_by_their_shape_also_of_restarts_and_of_optimisers():
    alg = vi.topics.by_words(vi.svi(lda()))
    state = alg.init(KEY)
    assert [tuple(spec) for spec in find_tables(alg.spec.model, state).values()] == [
        (None, "topics")
    ]
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), state)
    assert [tuple(spec) for spec in find_tables(alg.spec.model, stacked).values()] == [
        (None, None, "topics")
    ]
    assert find_tables(vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=2)), state) == {}


def test_a_mesh_of_one_part_of_topics_is_the_ordinary_one():
    assert vi.scale.mesh(data=1, topics=1) == vi.scale.mesh(1)


def fake_mesh(shape, names):
    """A mesh of one device that is there several times, for checks of shapes alone."""
    devices = np.array([jax.devices()[0]] * int(np.prod(shape))).reshape(shape)
    return jax.sharding.Mesh(devices, names)


def test_an_axis_of_topics_may_stand_anywhere_and_alone():
    mesh, axis = check_mesh(fake_mesh((4, 1, 2), ("topics", "x", "rows")))
    assert (axis, mesh.axis_names, mesh.devices.shape) == ("rows", ("rows", "topics"), (2, 4))
    mesh, axis = check_mesh(fake_mesh((4,), ("topics",)))
    assert (axis, mesh.axis_names, mesh.devices.shape) == ("data", ("data", "topics"), (1, 4))
    with pytest.raises(ValueError, match=naming("mesh:", "'topics'")):
        check_mesh(fake_mesh((2, 2, 2), ("x", "y", "topics")))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (vi.models.lda(6, 9), r"^mesh: expected parts of the topics that divide .*, 6, got 4"),
        (
            vi.models.mixture(vi.models.emission.unit_gaussian(4, dim=2)),
            r"^mesh: expected a model with tables over words.*got another model",
        ),
    ],
)
def test_models_without_such_tables_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        vi.scale.on_mesh(vi.svi(model), fake_mesh((1, 4), ("data", "topics")))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"num_devices": 3, "data": 1, "topics": 2},
            r"^num_devices: expected data x topics = 1 x 2",
        ),
        ({"num_devices": 1, "topics": 2}, r"^topics: expected a divisor of the number of devices"),
        ({"data": 1, "topics": 1000}, r"^devices: expected at most the \d+ of this process"),
        ({"topics": 0}, r"^topics: "),
    ],
)
def test_meshes_that_cannot_be_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        vi.scale.mesh(**arguments)


def test_topics_over_processes_are_refused():
    device = lambda process: types.SimpleNamespace(process_index=process)
    whole = np.array([[device(0), device(0)], [device(1), device(1)]])
    _require_whole_processes(whole)
    with pytest.raises(ValueError, match=naming("mesh:", "processes [0, 1]", "mesh(data=")):
        _require_whole_processes(whole.T)
    with pytest.raises(ValueError, match=naming("mesh:", "{0: 1, 1: 2}", "mesh(data=")):
        _require_whole_processes(np.concatenate([whole, whole[1:]]))
