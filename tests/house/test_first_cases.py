import argparse

import pytest

from tests.first_cases import ends, fraction, part


def test_of_every_function_the_first_and_the_last_case_are_kept():
    names = [
        "a.py::f[1]",
        "a.py::f[2::x[3]]",
        "b.py::f",
        "a.py::C::g[1]",
        "a.py::f[4]",
        "b.py::b.doc",
        "a.py::C::g[2]",
    ]
    kept = [names[place] for place in ends(names)]
    assert kept == [
        "a.py::f[1]",
        "b.py::f",
        "a.py::C::g[1]",
        "a.py::f[4]",
        "b.py::b.doc",
        "a.py::C::g[2]",
    ]
    assert ends([]) == []


def test_parts_of_the_functions_have_every_case_between_them():
    names = ["a.py::f[1]", "a.py::g", "a.py::f[2]", "b.py::f[1]", "b.py::f[2]"]
    assert [names[place] for place in part(names, 0, 2)] == [
        "a.py::f[1]",
        "a.py::f[2]",
        "b.py::f[1]",
        "b.py::f[2]",
    ]
    assert [names[place] for place in part(names, 1, 2)] == ["a.py::g"]
    thirds = [part(names, k, 3) for k in range(3)]
    assert sorted(place for third in thirds for place in third) == list(range(5))


def test_a_part_is_written_as_a_fraction():
    assert fraction("1/4") == (1, 4)
    for text in ("4/4", "1", "-1/4", "half"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a part like 0/4"):
            fraction(text)
