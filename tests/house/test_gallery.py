"""The gallery of the documentation: each program says what it is, fits its column and runs."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NAMES = sorted(path.stem for path in (DOCS / "gallery").glob("*.py"))


@pytest.fixture
def gallery(tmp_path, monkeypatch):
    """The maker of the pages, whose pictures go to a temporary folder."""
    spec = importlib.util.spec_from_file_location("gallery_pages", DOCS / "gallery_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "KEPT", tmp_path)
    return module


def test_each_program_has_a_title_and_fits_its_column(gallery):
    programs = gallery.read_programs()
    assert [program.path.stem for program in programs] == NAMES
    assert len(NAMES) >= 9
    for program in programs:
        assert program.title
        assert program.text
        lines = program.path.read_text().splitlines()[program.first_line - 1 :]
        assert max(map(len, lines)) <= 100
        assert not any(line.startswith("assert") for line in lines)


def test_the_page_of_all_has_each_picture(gallery):
    text = gallery.index_text(gallery.read_programs())
    for name in NAMES:
        assert f":img-top: {name}.png" in text
        assert f":link: {name}\n" in text
    program = gallery.read_programs()[0]
    page = gallery.page_text(program, "said")
    assert f"{{literalinclude}} {NAMES[0]}.py" in page
    assert "```text\nsaid\n```" in page


def test_a_program_runs_once(gallery, tmp_path, monkeypatch):
    path = tmp_path / "one.py"
    path.write_text(
        '"""One\n\nA line."""\nimport matplotlib.pyplot as plt\nplt.plot([1])\nprint(1)\n'
    )
    program = gallery.Program(path, "One", "A line.", 4)
    picture, said = gallery.run(program)
    assert picture.is_file()
    assert said == "1\n"
    monkeypatch.setattr(gallery, "RUN", "raise SystemExit(1)")
    assert gallery.run(program) == (picture, said)  # kept
    path.write_text(path.read_text().replace("print(1)", "print(2)"))
    with pytest.raises(RuntimeError, match=r"one\.py"):
        gallery.run(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_program_of_the_gallery_makes_its_picture(gallery, name):
    pytest.importorskip("sklearn")
    program = next(p for p in gallery.read_programs() if p.path.stem == name)
    picture, _ = gallery.run(program)
    assert picture.stat().st_size > 5000
