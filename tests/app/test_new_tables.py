"""Later tables are read by what was decided on the training rows, and never guessed anew."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.naming import check_names, naming
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.sources.listing import Data

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def trained(model, text, *given):
    """The configuration of a run and its data, as the run folder keeps them."""
    Path("t.csv").write_text(text)
    config = load_config(model, ["data.held_out=0", "data.standardise=false", *given], "t.csv")
    data = load_data(config)
    config.listing.source.keep(Path(), data)
    return config, data, config.listing.source.kept(Path())


def read(config, data, text, name="new.csv"):
    Path(name).write_text(text)
    return config.listing.source.new(config, data, name, None).data


COMMAS = "a;b\n" + "".join(f"{i},5;{i}\n" for i in range(9))
POINTS = "a;b\n" + "".join(f"{i}.5;{i}\n" for i in range(9))


@pytest.mark.parametrize("kept", [False, True])
def test_the_decimal_sign_is_that_of_the_training_file(kept):
    """Of "1.234" alone nobody could tell; a file divided by commas has points before decimals."""
    config, *both = trained("mixture", COMMAS)
    data: Data = both[kept]
    assert read(config, data, "a;b\n1.234;2\n").x.tolist() == [[1234.0, 2.0]]
    assert read(config, data, "a,b\n1.234,2\n").x.tolist() == [[1.234, 2.0]]
    config, *both = trained("mixture", POINTS)
    assert read(config, both[kept], "a;b\n1.234;2\n").x.tolist() == [[1.234, 2.0]]
    assert read(config, both[kept], "a;b\n1,5;2\n").x.tolist() == [
        [1.5, 2.0]
    ]  # no comma between thousands
    with pytest.raises(ValueError, match=naming("column 'a':", "'1,500'", "2")):
        read(config, both[kept], "a;b\n1,500;2\n")


@pytest.mark.parametrize("kept", [False, True])
def test_a_file_that_says_by_itself_that_its_decimals_are_commas_is_read_so(kept):
    config, *both = trained("mixture", POINTS)
    Path("new.csv").write_text("a;b\n101,257;0,640\n104,709;-1,397\n")
    new = config.listing.source.new(config, both[kept], "new.csv", None)
    assert new.data.x.tolist() == [[101.257, 0.64], [104.709, -1.397]]
    said = (
        "In 'a', 'b' commas stand before decimals, as in '101,257', and points between thousands."
    )
    assert f"{said} If not, set decimal." in new.notes


@pytest.mark.parametrize("kept", [False, True])
def test_times_are_read_in_the_format_of_the_training_file(kept):
    days = "date,x\n" + "".join(f"{i}/05/2024,{i % 3}\n" for i in range(10, 20))
    config, *both = trained("hmm", days)
    table = read(config, both[kept], "date,x\n01/02/2024,1\n02/01/2024,0\n")
    assert table.sequences()[0].tolist() == [[0.0], [1.0]]
    matrix = config.listing.source.new(config, both[kept], np.array([[1.0], [0.0]]), None).data
    assert matrix.sequences()[0].tolist() == [[1.0], [0.0]]  # without names there are no times
    with pytest.raises(
        ValueError,
        match="a date in every row, written as day/month/year, got '2024/05/01' in line 2",
    ):
        read(config, both[kept], "date,x\n2024/05/01,1\n")


@pytest.mark.parametrize("kept", [False, True])
def test_a_run_that_takes_rows_as_they_lie_does_so_later(kept):
    config, *both = trained("hmm", "k,x\n" + "".join(f"{i % 4},{i}\n" for i in [3, 1, 2, 5, 4, 0]))
    table = read(config, both[kept], "time,k,x\n2,1,5\n1,2,6\n")
    assert table.timed is None
    assert table.x.tolist() == [[1.0, 5.0], [2.0, 6.0]]


def test_what_kind_names_are_is_kept():
    rows = "".join(f"{g},{RNG.normal():.2f},{RNG.normal():.2f}\n" for g in [1, 2.5, 3] * 4)
    config, data, _ = trained(
        "hierarchical_linear", "g,x,y\n" + rows, "data.group=g", "data.target=y"
    )
    for one in (1, 1.0, np.int8(1), "1"):
        new = config.listing.source.new(config, data, {"g": [one], "x": [0.0]}, None)
        assert new.data.group_names == ("1",)
        assert new.notes == ()
    new = config.listing.source.new(
        config, data, {"g": ["01", 7, 3.0, "1.0"], "x": [0.0] * 4}, None
    )
    assert new.data.group_names == ("01", "7", "3", "1.0")  # in a file text is exact
    assert new.notes == (
        "3 rows are of 3 groups that training has not seen, '01', '7', '1.0': they are predicted "
        "by the population.",
    )


def test_columns_that_are_carried_through_keep_their_text():
    config, data, _ = trained("mixture", "id,a,b\nr1,1,2\nr2,3,5\nr3,2,2\n")
    Path("new.csv").write_text("id,a,b\n007,1,2\n1e3,3,5\n")
    new = config.listing.source.new(config, data, "new.csv", None)
    assert new.beside["id"] == ["007", "1e3"]
    new = config.listing.source.new(
        config, data, {"id": ["007", "1e3"], "a": [1, 3], "b": ["2", "5"]}, None
    )
    assert new.beside["id"] == ["007", "1e3"]
    assert new.data.x.tolist() == [[1.0, 2.0], [3.0, 5.0]]


# --- rows that cannot be placed -------------------------------------------------------------------
SEQUENCES = "g,day,x\n" + "".join(
    f"{'ab'[i // 6]},2024-05-{i % 6 + 1:02d},{i * i % 7}\n" for i in range(12)
)
UNPLACED = "g,day,x\na,2024-05-01,1\n,2024-05-02,2\na,,3\na,2024-05-04,4\n"


def test_new_rows_without_a_group_or_a_time_have_empty_results_in_their_place():
    config, data, _ = trained("hmm", SEQUENCES, "data.group=g")
    Path("new.csv").write_text(UNPLACED)
    new = config.listing.source.new(config, data, "new.csv", None)
    assert new.places.tolist() == [0, 3]
    assert new.data.x[:, 0].tolist() == [1.0, 4.0]
    assert new.beside["g"] == ["a", "", "a", "a"]
    assert (
        "2 of 4 rows lack a cell that the model needs, the first in line 3: their results are "
        "empty." in new.notes
    )
    scored = config.listing.source.other(config, data, "new.csv", None)
    assert scored.x[:, 0].tolist() == [1.0, 4.0]
    check_names(scored.notes, "1 rows", "'day'", "data.missing", "4")


@pytest.mark.filterwarnings("ignore:Blanks around names")
def test_names_in_memory_lose_their_blanks_as_those_of_files_do():
    config, data, _ = trained("hmm", SEQUENCES, "data.group=g")
    source = {" g": [" a", "a "], "day": ["2024-05-01", " 2024-05-02"], "x": [1.0, 2.0]}
    new = config.listing.source.new(config, data, source, None).data
    assert new.group_names == ("a",)
    assert new.columns == ("x",)


def test_draws_of_rows_that_lack_a_cell_are_empty_in_their_place():
    from vijax.app.rows.predicted import Draws

    values = np.array([[[1.0], [np.nan]], [[-1.0], [np.nan]]])
    draws = Draws(values, ("ill",), {"row": [0, 1]}, ("no", "yes"))
    np.testing.assert_array_equal(draws.summary().columns()["probability_yes"], [0.5, np.nan])
    assert draws.each().columns()["ill"].tolist() == ["yes", "", "no", ""]


def test_times_to_come_have_their_fractions_zones_and_digits():
    from vijax.app.rows.times import times_ahead

    cells = {
        "fractions": ([f"2024-01-01T00:00:0{i}.250" for i in range(5)], "2024-01-01 00:00:05.250"),
        "zone": ([f"2024-01-01T0{i}:00:00+01:00" for i in range(5)], "2024-01-01 04:00:00+00:00"),
        "nanoseconds": (
            [str(1_701_734_400_000_000_000 + i) for i in range(5)],
            1_701_734_400_000_000_005,
        ),
        "night": (["23:57", "23:58", "23:59", "00:00", "00:01"], "00:02:00"),
    }
    for name, (times, ahead) in cells.items():
        text = "time,x\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times))
        _, data, _ = trained("hmm", text)
        assert times_ahead(data.train, 1) == {"time": [ahead]}, name


def test_commands_without_settings_name_none_in_remedies():
    from vijax.app.cli import _one_line
    from vijax.data.reading.checks import fail

    remedy = (
        "correct it; or leave the column out of data.columns; or take rows as they lie: --set "
        "data.order=none"
    )
    error = fail("a.csv", "numbers", "'x'", remedy)
    assert (
        _one_line(error, "transform") == "a.csv: expected numbers, got 'x'. To mend it: correct it."
    )
    assert "--set data.order=none" in _one_line(error, "fit")
    error = fail("a.csv", "utf-8 text", "bytes", "pass encoding='cp1252' if that reads well")
    assert _one_line(error, "evaluate").endswith(
        "To mend it: write the data as those of training were written."
    )
