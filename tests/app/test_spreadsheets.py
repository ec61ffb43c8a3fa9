"""No CSV has a cell that a spreadsheet would run, whatever the data say; numbers are as they
were."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vijax
from vijax.app.answers import comparison_files
from vijax.app.answers.comparison import ComparedRun, Comparison
from vijax.app.drawing import blocks
from vijax.app.drawing.exports import (
    FORMULA,
    NUMBER,
    PARTS,
    format_topics,
    guard_formula,
    tables,
    unguard_formula,
)
from vijax.app.rows.predicted import Draws
from vijax.app.rows.transformed import as_csv, write_columns
from vijax.evaluate import Difference, Score
from vijax.topics.summary import Document, Topic

FORMULAS = (
    *(
        "=1+1",
        "+x",
        "-x",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "-2+3+cmd|'x'!A0",
        "=a,b",
        "'-1.5",
        '="b"',
    ),
    "\uff1d1",
)
PLAIN = ("-1.5", "+2", "-1e-05", ".5", "-.5", "1", "x=1", "a-b", "'x", "", "\u2212x", "a, b")
EVIL = FORMULAS[7]
SCRIPTS = Path(vijax.__file__).parent / "app" / "report" / "script"


def check(text):
    """Nothing that is run, and the text is in there, so that the check is not of nothing."""
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert any(EVIL in cell for cell in cells)
    for cell in cells:
        assert cell[:1] not in tuple("=+-@\t\r\n") or NUMBER.fullmatch(cell), cell


@pytest.mark.parametrize("text", FORMULAS)
def test_what_a_spreadsheet_would_run_is_text(text):
    assert guard_formula(text) == f"'{text}"


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_and_other_text_are_left_alone(text):
    assert guard_formula(text) == text


@given(st.text(alphabet="'=+-@\t\r\n\uff1d1.eEx"))
def test_every_text_comes_back(text):
    shown = guard_formula(text)
    assert unguard_formula(shown) == text
    assert shown in (text, f"'{text}")
    assert shown[:1] not in tuple("=+-@\t\r\n") or NUMBER.fullmatch(shown) or not shown


TOPICS = [Topic(0, 1.0, (EVIL, "b"), (0.5, 0.1), (0.0, 0.0), (Document(EVIL, EVIL, 0.9),), 0.5)]
SHOWN = [
    blocks.Table("t", [EVIL, "n"], [[EVIL, -1.5], [None, -2]]),
    blocks.Lines("l", EVIL, EVIL, [0.0, 1.0], [-1.0, 2.0], [0.0, 1.0], [2.0, 3.0], [0.5], [1.0]),
    blocks.Scatter("s", EVIL, EVIL, [0.0], [1.0], [0], [(0, [0.0, 1.0], [0.0, 1.0])]),
    blocks.Intervals("i", [EVIL], [-1.0], [0.5]),
    blocks.Heat("h", [EVIL], [EVIL], [[-0.5]]),
    blocks.Strips("st", [EVIL], [[0, 1]]),
    blocks.Course("c", [EVIL], [[0.5]], [0], [[1.0]]),
    blocks.Curves("cs", EVIL, [EVIL], [0.0], [[-0.5]], [[None]], [[1.0]]),
    blocks.Arcs("a", [EVIL, "b"], [(0, 1, 0.5)]),
    blocks.Tree("t", [EVIL, "b"], [(0, 1, 0.5)]),
    blocks.Images("im", [EVIL], [[[0.5, -1.0]]], 1, 2),
    blocks.Topics("to", TOPICS, [[0.0]]),
]


def of_columns():
    return {EVIL: [EVIL, "b"], "x": np.array([-1.5, 2.0])}


def written(tmp_path):
    write_columns(tmp_path / "some.csv", of_columns())
    return (tmp_path / "some.csv").read_text()


def compared(tmp_path):
    score = Score(-1.0, 0.1, np.array([-1.0]), np.array([1]), np.array([0]), 0)
    run = ComparedRun(Path(EVIL), (EVIL,), score, None, None, "")
    found = Comparison((f"data.{EVIL}",), (run, run._replace(behind=Difference(0.1, 0.1))), 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            comparison_files,
            "figure",
            lambda found: type("", (), {"savefig": lambda *a, **b: None})(),
        )
        comparison_files.write_comparison(tmp_path, found)
    return (tmp_path / "comparison.csv").read_text()


def drawn(tmp_path):
    draws = Draws(np.array([[[-1.0]], [[-3.0]]]), (EVIL,), {EVIL: [EVIL]})
    return as_csv(draws.summary().columns()) + as_csv(draws.each().columns())


WRITERS = {
    "blocks": lambda tmp_path: "".join(text for _, text in tables(SHOWN)),
    "topics": lambda tmp_path: format_topics(TOPICS, "csv", 2),
    "columns, printed": lambda tmp_path: as_csv(of_columns()),
    "columns, a file": written,
    "draws": drawn,
    "comparison": compared,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_makes_text_of_formulas(writer, tmp_path):
    check(WRITERS[writer](tmp_path))


def test_all_kinds_of_blocks_are_among_them():
    assert {type(block).__name__ for block in SHOWN} == set(PARTS)


def test_numbers_are_written_as_they_were():
    assert as_csv({"x": np.array([-1.5, 2.0]), "y": ["-1.5", "+3"]}) == "x,y\n-1.5,-1.5\n2,+3\n"


def test_numbers_far_from_zero_keep_the_digits_of_their_deviation(tmp_path):
    """Of predictions near 2,020,000 with deviations of a tenth, in every kind of file; and of
    draws, without any."""
    columns = {
        "time_mean": [2_020_000.4321, 7.0],
        "time_sd": [0.1, 0.0],
        "prediction": [2_020_000.4321, 7.5],
    }
    columns |= {"low": [2_020_000.27, 7.0], "high": [2_020_000.59, 8.0]}
    columns = {name: np.array(values) for name, values in columns.items()}
    first, second = as_csv(columns).splitlines()[1:]
    assert first == "2020000.4321,0.1,2020000.4321,2020000.27,2020000.59"
    assert second == "7,0,7.5,7,8"
    write_columns(tmp_path / "far.jsonl", columns)
    assert (
        json.loads((tmp_path / "far.jsonl").read_text().splitlines()[0])["time_mean"]
        == 2_020_000.4321
    )
    assert (
        as_csv({"draw": np.array([2_020_000.25, 2_020_001.125])})
        == "draw\n2020000.25\n2020001.125\n"
    )
    assert as_csv({"share": np.array([0.12345678, 0.5])}) == "share\n0.123457\n0.5\n"


def test_csv_is_written_in_one_place():
    root = Path(vijax.__file__).parent
    other = [
        path
        for path in root.rglob("*.py")
        if re.search(r"csv\.\w*[wW]riter|to_csv", path.read_text())
    ]
    assert other == []


def test_documents_are_called_as_in_the_data_when_they_are_read_again(tmp_path):
    pytest.importorskip("pyarrow")
    from vijax.app.sources.doc_topics import read_doc_topics

    columns = {"document": list(FORMULAS), EVIL: list(PLAIN), "words": np.arange(len(FORMULAS))}
    write_columns(tmp_path / "doc_topics.csv", columns | {"share_0": np.ones(len(FORMULAS))})
    found = read_doc_topics(tmp_path / "doc_topics.csv")
    assert found["document"] == list(FORMULAS)
    assert found[EVIL] == list(PLAIN)


def test_the_page_knows_formulas_by_the_same_patterns():
    script = (SCRIPTS / "start.js").read_text()
    assert f"const formula = /{FORMULA.pattern}/;" in script
    assert f"const number = /{NUMBER.pattern}/;" in script


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_page_saves_the_same_csv():
    script = (SCRIPTS / "start.js").read_text()
    functions = script[script.index("function quoted") : script.index("function save")]
    rows = [[text, -1.5] for text in FORMULAS + PLAIN]
    program = f"{functions}\nprocess.stdout.write(csv({json.dumps(rows)}))"
    done = subprocess.run(["node", "-e", program], capture_output=True, check=True)
    assert list(csv.reader(io.StringIO(done.stdout.decode(), newline=""))) == [
        [guard_formula(t), "-1.5"] for t, _ in rows
    ]
