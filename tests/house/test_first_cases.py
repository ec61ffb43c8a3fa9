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


def test_parts_have_every_test_between_them():
    groups = ["f", "g", "f", "h", "h", "g"]
    assert part(groups, 0, 2) == [0, 2, 3, 4]
    assert part(groups, 1, 2) == [1, 5]
    thirds = [part(groups, k, 3) for k in range(3)]
    assert sorted(place for third in thirds for place in third) == list(range(6))


def test_a_part_is_written_as_a_fraction():
    assert fraction("1/4") == (1, 4)
    for text in ("4/4", "1", "-1/4", "half"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a part like 0/4"):
            fraction(text)
