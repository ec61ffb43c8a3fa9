"""Rows that are read by parts: a bad one is named in its file, and what cannot be done by parts is
refused."""

import numpy as np
import pytest

pytest.importorskip("tyro")

from tests.naming import naming
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.data import DataError
from vijax.data.streams.rows import rows

BY_PARTS = ["data.sample=20", "algorithm.name=svi", "num_components=2", "fit.batch_size=10"]


@pytest.fixture
def folder(tmp_path):
    """Two files of 50 rows in row groups of 20; one cell of the second is missing."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in "ab":
        x = np.random.default_rng(0).normal(size=50).tolist()
        x[33] = None if name == "b" else x[33]
        parquet.write_table(
            arrow.table({"x": x, "z": x[::-1]}), tmp_path / f"{name}.parquet", row_group_size=20
        )
    return str(tmp_path)


def test_rows_are_named_as_in_their_file(folder):
    table = rows(folder, ["x", "z"])
    names = table.row_names(np.array([0, 49, 50, 83]))
    assert [names.name(row) for row in range(4)] == [
        "row 1 of a.parquet",
        "row 50 of a.parquet",
        "row 1 of b.parquet",
        "row 34 of b.parquet",
    ]
    part = table.split(10, 0)[0]
    x = part.take(np.arange(90))[:, 0]
    assert part.row_names(np.arange(90)).name(int(np.argmax(np.isnan(x)))) == "row 34 of b.parquet"


def test_a_missing_cell_is_named_in_its_file(folder):
    data = load_data(load_config("mixture", [*BY_PARTS, "held_out=0", "data.split_seed=1"], folder))
    arrange = data.train.read_as(lambda table, settings: table.x, None)
    block = next(
        block for block in arrange.blocks if block.file.endswith("b.parquet") and block.above == 20
    )
    with pytest.raises(DataError, match=naming("b.parquet:", "34", "'x'")):
        arrange.read(block)


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("data.missing=drop", "data.missing=drop leaves some of them out"),
        ('data.missing_words=["NA"]', "data.missing_words looks at whole columns"),
    ],
)
def test_what_parts_cannot_have_is_refused_and_the_remedy_works(folder, override, why):
    with pytest.raises(ValueError, match=rf"{why}\. To hold all of them, set data\.sample=100"):
        load_data(load_config("mixture", [*BY_PARTS, override], folder))
    assert load_data(
        load_config("mixture", [*BY_PARTS, "data.missing=drop", "data.sample=100"], folder)
    ).train.num_rows
