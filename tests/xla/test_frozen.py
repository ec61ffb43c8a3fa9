"""A function of a user is a value: models are those of what it reads now, and equal ones are
one."""

import collections
import dataclasses
import functools
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from vijax.xla.frozen import UnknownError, freeze, snapshot

KEY = jax.random.key(0)
NUMBER, ARRAY, LIST = 1.0, np.arange(3.0), [1.0, [2.0]]
TABLE = {"a": np.arange(2.0), "b": {"c": 1}}
SPACE = types.SimpleNamespace(c=1.0, inside=types.SimpleNamespace(x=np.zeros(2)))


class Settings:
    """Read as a class."""

    c = 1.0


class Heir(Settings):
    def read(self):
        return self.c


HEIR = Heir()


class Scaled:
    """Has a method that reads an attribute, and a function of the module."""

    def __init__(self):
        self.c = 1.0
        self.x = np.zeros(2)

    def times(self, v):
        return self.c * v + helper() + self.x.sum()


OBJECT = Scaled()


class Slotted:
    __slots__ = ("c",)

    def __init__(self):
        self.c = 1.0

    def __call__(self, v=0.0):
        return self.c


class Pair(NamedTuple):
    x: np.ndarray
    y: float


@dataclasses.dataclass
class Held:
    x: list


SLOTTED, PAIR, HELD = Slotted(), Pair(np.zeros(2), 1.0), Held([np.zeros(2)])


def helper():
    return NUMBER


@functools.wraps(helper)
def deep():
    return helper()


def made_inside():
    return (lambda: NUMBER)()


def with_default(x=LIST):
    return x


class Patch:
    """Changes of entries and attributes, which are undone."""

    def __init__(self):
        self._before = []

    def setitem(self, owner, place, value):
        self._before.append(
            (owner, place, np.copy(owner[place]) if isinstance(owner, np.ndarray) else owner[place])
        )
        owner[place] = value

    def setattr(self, owner, name, value):
        self._before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def undo(self):
        while self._before:
            owner, place, value = self._before.pop()
            if isinstance(place, str) and not isinstance(owner, dict):
                setattr(owner, place, value)
            else:
                owner[place] = value


@pytest.fixture
def patch():
    made = Patch()
    yield made
    made.undo()


def given(patch, name, value):
    patch.setitem(globals(), name, value)


CHANGES = {
    "a number": (lambda: NUMBER, lambda patch: given(patch, "NUMBER", 2.0)),
    "its type": (lambda: NUMBER, lambda patch: given(patch, "NUMBER", 1)),
    "an array": (lambda: ARRAY, lambda patch: given(patch, "ARRAY", np.ones(3))),
    "an array in place": (lambda: ARRAY, lambda patch: patch.setitem(ARRAY, 0, 5.0)),
    "an entry of a list": (lambda: LIST, lambda patch: patch.setitem(LIST, 0, 5.0)),
    "an entry of a list in a list": (lambda: LIST, lambda patch: patch.setitem(LIST[1], 0, 5.0)),
    "an array in a dict in place": (lambda: TABLE, lambda patch: patch.setitem(TABLE["a"], 0, 5.0)),
    "a value in a dict in a dict": (lambda: TABLE, lambda patch: patch.setitem(TABLE["b"], "c", 5)),
    "what a helper reads": (lambda: helper(), lambda patch: given(patch, "NUMBER", 2.0)),
    "what a wrapped helper reads": (deep, lambda patch: given(patch, "NUMBER", 2.0)),
    "what a function inside reads": (made_inside, lambda patch: given(patch, "NUMBER", 2.0)),
    "an attribute": (lambda: SPACE.c, lambda patch: patch.setattr(SPACE, "c", 2.0)),
    "an array deep in an object": (
        lambda: SPACE,
        lambda patch: patch.setitem(SPACE.inside.x, 0, 5.0),
    ),
    "an attribute of a parent": (HEIR.read, lambda patch: patch.setattr(Settings, "c", 2.0)),
    "an attribute of a class": (
        lambda: Settings.c,
        lambda patch: patch.setattr(Settings, "c", 2.0),
    ),
    "the object of a method": (OBJECT.times, lambda patch: patch.setattr(OBJECT, "c", 2.0)),
    "an array of the object of a method": (
        OBJECT.times,
        lambda patch: patch.setitem(OBJECT.x, 0, 5.0),
    ),
    "what a method reads": (OBJECT.times, lambda patch: given(patch, "NUMBER", 2.0)),
    "a slot of an object that is called": (SLOTTED, lambda patch: patch.setattr(SLOTTED, "c", 2.0)),
    "a slot": (lambda: SLOTTED.c, lambda patch: patch.setattr(SLOTTED, "c", 2.0)),
    "an array of a named tuple": (lambda: PAIR.x, lambda patch: patch.setitem(PAIR.x, 0, 5.0)),
    "an array of a list of a dataclass": (
        lambda: HELD,
        lambda patch: patch.setitem(HELD.x[0], 0, 5.0),
    ),
    "an argument of a partial function": (
        functools.partial(max, LIST[1]),
        lambda patch: patch.setitem(LIST[1], 0, 5.0),
    ),
    "a default": (with_default, lambda patch: patch.setitem(LIST, 0, 5.0)),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_a_function_reads_is_part_of_it(kind, patch):
    function, change = CHANGES[kind]
    copy, key = freeze(function)
    again, same = freeze(function)
    assert again is copy or isinstance(copy, Slotted)  # nobody can hold it weakly
    assert same == key
    change(patch)
    assert freeze(function)[1] != key
    patch.undo()
    assert freeze(function)[1] == key


def test_a_copy_reads_what_was_there(patch):
    copy = snapshot(lambda: (NUMBER, ARRAY.sum(), helper(), LIST[1][0], SPACE.c, OBJECT.c))
    before = copy()
    given(patch, "NUMBER", 2.0)
    patch.setitem(ARRAY, 0, 7.0)
    patch.setitem(LIST[1], 0, 7.0)
    patch.setattr(SPACE, "c", 7.0)
    patch.setattr(OBJECT, "c", 7.0)
    assert copy() == before == (1.0, 3.0, 1.0, 2.0, 1.0, 1.0)


def test_an_empty_list_may_be_filled():
    """Two functions that fill lists of their own are two."""
    fill = lambda into: lambda v: into.append(v)
    first, second = [], []
    snapshot(fill(first))(1)
    snapshot(fill(second))(2)
    assert (first, second) == ([1], [2])


def test_a_cell_counts_and_is_copied():
    y = np.zeros(2)
    function = lambda: y.sum()
    copy, key = freeze(function)
    y[0] = 1.0
    assert (function(), copy()) == (1.0, 0.0)
    assert freeze(function)[1] != key


def test_functions_of_one_code_that_read_equal_values_are_one():
    of = lambda x: lambda: x
    assert freeze(of(np.ones(2)))[1] == freeze(of(np.ones(2)))[1] != freeze(of(np.zeros(2)))[1]
    assert freeze(of(1.0))[1] != freeze(of(1))[1]
    assert freeze(lambda v: v + 1)[1] != freeze(lambda v: v + 2)[1]


def test_functions_that_call_themselves_or_each_other_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n > 0 and even(n - 1)

    copy, key = freeze(even)
    assert copy(4)
    assert not copy(3)
    assert freeze(even)[1] == key


def test_what_cannot_be_compared_makes_a_function_like_no_other():
    generator = (x for x in ())
    function = lambda: generator
    with pytest.raises(UnknownError):
        freeze(function)
    assert snapshot(function) is not snapshot(function)


def test_a_density_may_be_an_object_that_is_called(patch):
    make = lambda: vi.density({"w": vi.free()}, SQUARE)
    first = make()
    assert make() is first
    patch.setattr(SQUARE, "c", 3.0)
    assert make() is not first
    assert float(make().log_density.log_prior({"w": jnp.zeros(())})) == -9.0


class Square:
    def __init__(self):
        self.c = 0.0

    def __call__(self, v):
        return -((v["w"] - self.c) ** 2)


SQUARE = Square()


def test_functions_of_packages_are_themselves():
    assert snapshot(jnp.sum) is jnp.sum
    assert snapshot(np.mean) is np.mean
    assert snapshot(norm.logpdf) is norm.logpdf


Y = np.array([2.0, 4.0, 6.0])


def line(v):
    return norm.logpdf(v["w"], 0, 10) + norm.logpdf(Y, v["w"] * np.arange(1.0, 4.0), 1).sum()


def mean_of(log_density):
    model = vi.density({"w": vi.free()}, log_density)
    fit = vi.auto(model, key=KEY, num_starts=2)
    return model, float(np.mean(fit.sample(KEY, 2000)["w"]))


def test_a_density_is_that_of_the_data_that_it_reads_now(patch):
    """As in a notebook, whose cells bind names anew; and in a loop that shuffles its data in
    place."""
    first, before = mean_of(line)
    again, same = mean_of(line)
    assert again is first
    assert same == before == pytest.approx(2.0, abs=0.05)
    given(patch, "Y", -3 * Y / 2)
    assert mean_of(line)[1] == pytest.approx(-3.0, abs=0.05)
    y = Y.copy()
    held = lambda v: (
        norm.logpdf(v["w"], 0, 10) + norm.logpdf(y, v["w"] * np.arange(1.0, 4.0), 1).sum()
    )
    assert mean_of(held)[1] == pytest.approx(-3.0, abs=0.05)
    y[:] = [6.0, 4.0, 2.0]
    assert mean_of(held)[1] == pytest.approx(20 / 14, abs=0.05)


def test_a_kernel_and_a_statistic_are_those_of_now(patch):
    x = np.linspace(0, 1, 6)[:, None]
    kernel = lambda a, b: NUMBER * jnp.exp(-((a - b.T) ** 2))
    make = lambda: vi.models.gp(x, np.ones(6), kernel, vi.likelihood.bernoulli_logit())
    first = make()
    assert make() is first
    statistic = lambda y: (y > NUMBER).mean()
    y = np.random.default_rng(0).normal(size=(40, 1))
    fit = vi.fit(
        vi.cavi(vi.models.mixture(vi.models.emission.diagonal_gaussian(1, dim=1))),
        y,
        num_steps=2,
        key=KEY,
    )
    check = lambda: float(
        vi.evaluate.predictive_check(fit, statistic, y, key=KEY, num_draws=20).observed
    )
    assert check() == pytest.approx((y > 1).mean())
    given(patch, "NUMBER", 0.0)
    assert check() == pytest.approx((y > 0).mean())
    assert make() is not first


def test_a_prior_of_a_variable_is_that_of_now(patch):
    prior = lambda x: norm.logpdf(x, NUMBER, 1)
    before = vi.free(log_prior=prior)
    assert before == vi.free(log_prior=prior)
    given(patch, "NUMBER", 5.0)
    assert before != vi.free(log_prior=prior)
    assert float(before.log_prior(1.0)) == pytest.approx(float(norm.logpdf(0.0)))


def test_a_numpyro_program_is_that_of_now(patch):
    numpyro = pytest.importorskip("numpyro")
    from numpyro.distributions import Normal

    def story():
        w = numpyro.sample("w", Normal(0, 10))
        numpyro.sample("y", Normal(w * np.arange(1.0, 4.0), 1).to_event(1), obs=Y)

    mean = lambda: float(
        np.mean(vi.auto(vi.from_numpyro(story), key=KEY, num_starts=2).sample(KEY, 2000)["w"])
    )
    assert mean() == pytest.approx(2.0, abs=0.05)
    patch.setitem(Y, slice(None), -Y)
    assert mean() == pytest.approx(-2.0, abs=0.05)


class Named(dict):
    """A dict of a user's."""


@pytest.mark.parametrize("make", [collections.OrderedDict, collections.Counter, Named])
def test_a_dict_of_another_type_is_like_no_other(make):
    """Its attributes say nothing of what it holds."""
    held = make(a=1)
    model = lambda: vi.density({"w": vi.free()}, lambda v: -held["a"] * v["w"] ** 2)
    first = model()
    held["a"] = 3
    assert float(model().log_density.log_prior({"w": jnp.ones(())})) == -3.0
    assert model() is not first


def test_what_is_very_deep_is_no_error():
    deep = []
    for _ in range(3000):
        deep = [deep, 1.0]
    density = lambda v: -deep[1] * v["w"] ** 2
    assert (
        float(vi.density({"w": vi.free()}, density).log_density.log_prior({"w": jnp.ones(())}))
        == -1.0
    )
    assert snapshot(density)({"w": 1.0}) == -1.0
