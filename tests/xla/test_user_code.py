"""Digests of a user's functions, and pickles that are read beside another program."""

import importlib
import pickle
import sys
import warnings

import numpy as np
import pytest

from vijax.xla.by_value import Function, cache_by_value
from vijax.xla.user_code import function_digest

PROGRAM = '''
import numpy as np
import numpy.linalg
SCALE = 2.0
ALLOWED = {1, 2}
DATA = np.arange(3.0)
class Shift:
    by = 1.0
    def move(self, x):
        return x + self.by
SHIFT = Shift()
def helper(x):
    """Twice."""
    return SCALE * x
def function(x, *, power=2):
    # a comment
    double = helper(x) + len(ALLOWED)
    inner = lambda y: y + DATA.sum()
    return inner(SHIFT.move(double)) ** power
'''
SAME = [
    ("# a comment", "# another"),
    ("Twice.", "Two times."),
    ("double", "twice"),
    ("import numpy.linalg", "import numpy.linalg\nOTHER = 3.0"),
]
OTHER = [
    ("SCALE * x", "SCALE + x"),
    ("SCALE = 2.0", "SCALE = 3.0"),
    ("arange(3.0)", "arange(1.0, 4.0)"),
    ("power=2", "power=3"),
    ("ALLOWED = {1, 2}", "ALLOWED = {1, 3}"),
    ("y + DATA", "y - DATA"),
    ("x + self.by", "x - self.by"),
    ("by = 1.0", "by = 2.0"),
]


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Writes a program and imports it anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text):
        (tmp_path / "a_users_program.py").write_text(text)
        sys.modules.pop("a_users_program", None)
        importlib.invalidate_caches()
        return importlib.import_module("a_users_program")

    yield write
    sys.modules.pop("a_users_program", None)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_what_computes_the_same_has_the_same_digest(program, old, new):
    assert PROGRAM.count(old)
    first = function_digest(program(PROGRAM).function)
    assert function_digest(program(PROGRAM.replace(old, new)).function) == first


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_what_computes_something_else_has_another_digest(program, old, new):
    assert PROGRAM.count(old) == 1
    first = function_digest(program(PROGRAM).function)
    assert function_digest(program(PROGRAM.replace(old, new)).function) != first


@cache_by_value
def make(function):
    return Function(function)


def read(text):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = pickle.loads(text)
    return made, [str(warning.message) for warning in caught]


def test_a_pickle_beside_a_changed_function_warns(program):
    text = pickle.dumps(make(program(PROGRAM).function))
    program(PROGRAM.replace("# a comment", ""))
    _, warnings_of_same = read(text)
    program(PROGRAM.replace("SCALE * x", "SCALE + x"))
    made, (warning,) = read(text)
    assert not warnings_of_same
    assert "made of function" in warning
    assert "fit again" in warning
    np.testing.assert_allclose(made(1.0), (3.0 + 2.0 + 1.0 + 3.0) ** 2)


def test_a_pickle_of_another_python_is_read_without_a_warning(program, monkeypatch):
    monkeypatch.setattr("vijax.xla.user_code._VERSION", "3.0")
    text = pickle.dumps(make(program(PROGRAM).function))
    monkeypatch.undo()
    sys.modules["a_users_program"].helper = abs
    assert read(text)[1] == []


class Endless:
    @property
    def __wrapped__(self):
        return Endless()


ENDLESS = Endless()


def reads_what_never_ends(x):
    return ENDLESS and x


def test_what_cannot_be_read_is_pickled_without_a_digest():
    assert function_digest(reads_what_never_ends) == ""
    assert read(pickle.dumps(make(reads_what_never_ends)))[1] == []


def test_members_of_a_set_count_by_their_contents():
    """The text of an object has its address, which differs in each process."""
    reader = lambda numbers: lambda x: x + len(numbers)
    digest = function_digest(reader({int, reader(1), (2, 3)}))
    assert function_digest(reader({(2, 3), reader(1), int})) == digest
    assert function_digest(reader({(2, 3), reader(2), int})) != digest
