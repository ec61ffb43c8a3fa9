from tests.first_cases import ends


def test_of_every_function_the_first_and_the_last_case_are_kept():
    names = ["a.py::f[1]", "a.py::f[2::x[3]]", "b.py::f", "a.py::C::g[1]", "a.py::f[4]", "b.py::b.doc", "a.py::C::g[2]"]
    kept = [names[place] for place in ends(names)]
    assert kept == ["a.py::f[1]", "b.py::f", "a.py::C::g[1]", "a.py::f[4]", "b.py::b.doc", "a.py::C::g[2]"]
    assert ends([]) == []
