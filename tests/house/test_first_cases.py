from tests.first_cases import ends, half


def test_of_every_function_the_first_and_the_last_case_are_kept():
    names = ["a.py::f[1]", "a.py::f[2::x[3]]", "b.py::f", "a.py::C::g[1]", "a.py::f[4]", "b.py::b.doc", "a.py::C::g[2]"]
    kept = [names[place] for place in ends(names)]
    assert kept == ["a.py::f[1]", "b.py::f", "a.py::C::g[1]", "a.py::f[4]", "b.py::b.doc", "a.py::C::g[2]"]
    assert ends([]) == []


def test_halves_of_the_functions_have_every_case_between_them():
    names = ["a.py::f[1]", "a.py::g", "a.py::f[2]", "b.py::f[1]", "b.py::f[2]"]
    assert [names[place] for place in half(names, 0)] == ["a.py::f[1]", "a.py::f[2]", "b.py::f[1]", "b.py::f[2]"]
    assert [names[place] for place in half(names, 1)] == ["a.py::g"]
