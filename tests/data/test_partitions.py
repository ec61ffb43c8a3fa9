"""Folders of Parquet files as other programs write them: partitions, files that are no part, the
index of a frame."""

import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names, naming
from vijax.data.read import read, read_side_columns
from vijax.data.reading.checks import DataError, Notes
from vijax.data.reading.partitions import Part, find_parts
from vijax.data.tables.table_files import read_columns
from vijax.data.texts.text import TextSettings

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
fsspec = pytest.importorskip("fsspec")
ALL = TextSettings(min_df=1, max_df=1.0, stop_words=None)


def fill(folder, files):
    """A folder with tables (of columns) and other files (of bytes)."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            parquet.write_table(arrow.table(content), path)
        else:
            path.write_bytes(content)
    return folder


BESIDE = {
    "_SUCCESS": b"",
    "_metadata": b"no",
    "_temporary/0/a.parquet": b"no",
    "._part-0.parquet": b"no",
    ".part-0.parquet.crc": b"no",
    ".part-1.parquet": b"no",
    "_part-2.parquet": b"no",
    ".ipynb_checkpoints/part-0.parquet": b"no",
    "vocabulary.txt": b"aa\nbb\n",
}
"""Files that are no part of a table, by whose bytes every reader would fail."""


def everything(folder):
    """Columns, rows as a matrix, and the rows of a fit's table read one by one."""
    columns = {name: values.tolist() for name, values in read_columns(str(folder)).items()}
    table = vi.data.rows(folder)
    return columns, table.columns, table.take(np.arange(table.num_groups)).tolist()


def test_folders_of_parts_give_columns(tmp_path):
    """They were left out without a word."""
    parts = {"year=2020/a.parquet": {"x": [1.5]}, "year=2021/a.parquet": {"x": [2, 3]}}
    columns, names, matrix = everything(fill(tmp_path, parts | BESIDE))
    assert columns == {"x": [1.5, 2, 3], "year": [2020, 2021, 2021]}
    assert names == ["x", "year"]
    assert matrix == [[1.5, 2020], [2, 2021], [3, 2021]]


def test_two_levels_names_of_any_letters_and_missing_values(tmp_path):
    parts = {
        "k=a%20b/n=1/p.parquet": {"x": [1.5]},
        "k=c%2Fd/n=007/p.parquet": {"x": [2.5]},
        "k=__HIVE_DEFAULT_PARTITION__/n=3/p.parquet": {"x": [3.5]},
    }
    fill(tmp_path, parts)
    found = read_columns(str(tmp_path))
    by_x = {x: (k, n) for x, k, n in zip(found["x"], found["k"], found["n"], strict=True)}
    assert by_x == {1.5: ("a b", 1), 2.5: ("c/d", 7), 3.5: ("", 3)}
    exact = read_columns(str(tmp_path), exact=("n",))
    assert sorted(exact["n"]) == ["007", "1", "3"]
    rows = vi.data.rows(tmp_path, ["x", "n"])
    np.testing.assert_array_equal(
        sorted(rows.take(np.arange(3)).tolist()), [[1.5, 1], [2.5, 7], [3.5, 3]]
    )
    with pytest.raises(
        DataError,
        match=naming("p.parquet", "'k'", "'a b'"),
    ):
        vi.data.rows(tmp_path)


def test_a_column_of_the_file_goes_before_that_of_its_folder(tmp_path):
    """Polars writes both."""
    columns, names, matrix = everything(fill(tmp_path, {"y=1/a.parquet": {"x": [1.5], "y": [7]}}))
    assert (columns, names, matrix) == ({"x": [1.5], "y": [7]}, ["x", "y"], [[1.5, 7]])


@pytest.mark.parametrize("program", ["pandas", "polars", "pyarrow"])
def test_what_others_write_in_parts_comes_back(program, tmp_path):
    columns = {"x": [0.5, 1.5, 2.5, 3.5], "site": ["n", "s", "s", "n"]}
    if program == "pandas":
        pytest.importorskip("pandas").DataFrame(columns).to_parquet(
            tmp_path / "t", partition_cols=["site"]
        )
    elif program == "polars":
        polars = pytest.importorskip("polars")
        if not hasattr(polars, "PartitionBy"):
            pytest.skip("an older Polars")
        polars.DataFrame(columns).write_parquet(
            polars.PartitionBy(str(tmp_path / "t"), key=["site"]), mkdir=True
        )
    else:
        parquet.write_to_dataset(arrow.table(columns), str(tmp_path / "t"), partition_cols=["site"])
    found = read_columns(str(tmp_path / "t"))
    assert dict(zip(found["x"], found["site"], strict=True)) == dict(
        zip(columns["x"], columns["site"], strict=True)
    )


REFUSED = {
    "beside files": (
        {"a.parquet": {"x": [1]}, "y=1/b.parquet": {"x": [1]}},
        "'y=1/b.parquet' beside 'a.parquet'",
    ),
    "of two depths": (
        {"y=1/a.parquet": {"x": [1]}, "y=1/z=2/b.parquet": {"x": [1]}},
        "'y=1/z=2/b.parquet' beside 'y=1/a.parquet'",
    ),
    "of two columns": (
        {"y=1/a.parquet": {"x": [1]}, "z=1/a.parquet": {"x": [1]}},
        "called by the same columns",
    ),
    "without a column": (
        {"a.parquet": {"x": [1]}, "old/b.parquet": {"x": [1]}},
        "got 'old/b.parquet' beside",
    ),
    "years alone": (
        {"2020/a.parquet": {"x": [1]}},
        "none but '2020/a.parquet', which are left out",
    ),
    "an underscore alone": (
        {"_a.parquet": {"x": [1]}},
        "none but '_a.parquet', which are left out",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize(
    "reads",
    [read_columns, vi.data.rows, vi.data.shards, lambda folder: read(folder)],
    ids=["table", "rows", "shards", "read"],
)
def test_folders_that_are_no_parts_are_refused_and_not_left_out(name, reads, tmp_path):
    files, message = REFUSED[name]
    with pytest.raises(DataError, match=message):
        reads(str(fill(tmp_path, files)))


@pytest.mark.parametrize("log", ["_delta_log", ".hoodie"])
def test_a_table_whose_files_are_of_several_versions_is_refused(log, tmp_path):
    """Rows that were deleted since would be read."""
    fill(tmp_path / "t", {"a.parquet": {"x": [1]}, "b.parquet": {"x": [2]}, f"{log}/0.json": b"{}"})
    store = fsspec.filesystem("memory")
    store.pipe(f"/versions/{log}/0.json", b"{}")
    try:
        for source in (tmp_path / "t", "memory://versions"):
            with pytest.raises(DataError, match=f"whose {log} says which files count"):
                vi.data.rows(source)
    finally:
        store.rm("/versions", recursive=True)


def test_files_that_are_no_part_are_left_out(tmp_path):
    fill(tmp_path, {"part-0.parquet": {"x": [1.0, 2.0]}, "part-1.parquet": {"x": [3.0]}} | BESIDE)
    columns, _, matrix = everything(tmp_path)
    assert columns == {"x": [1, 2, 3]}
    assert matrix == [[1], [2], [3]]


@pytest.mark.parametrize("within", ["", "lang=1/"])
def test_words_beside_shards_are_no_document(within, tmp_path):
    """In folders of parts they were read as the only one."""
    shard = {"ids": [[0, 1], [1]], "counts": [[1, 2], [4]]}
    fill(tmp_path, {f"{within}a.parquet": shard, "vocabulary.txt": b"aa\nbb\n"} | BESIDE)
    corpus, sharded = read(tmp_path), vi.data.shards(tmp_path)
    assert (corpus.num_documents, corpus.num_tokens, corpus.vocabulary) == (2, 7, ("aa", "bb"))
    assert (sharded.num_documents, sharded.num_tokens, sharded.vocabulary) == (2, 7, ("aa", "bb"))


@pytest.mark.parametrize("within", ["", "lang=1/"])
def test_words_beside_texts_are_no_document(within, tmp_path):
    fill(
        tmp_path,
        {f"{within}a.parquet": {"text": ["one word", "two words"], "stars": [3, 4]}} | BESIDE,
    )
    corpus = read(tmp_path, text=ALL)
    assert corpus.vocabulary == ("one", "two", "word", "words")
    beside = read_side_columns(tmp_path, None)
    assert beside["stars"] == [3, 4]
    assert beside.get("lang", ["1", "1"]) == ["1", "1"]


def test_texts_that_lie_beside_files_of_parquet_are_told_to_be_left_out(tmp_path):
    fill(
        tmp_path,
        {
            "a.parquet": {"text": ["one word", "two words"]},
            "b.txt": b"three",
            "vocabulary.txt": b"four",
        },
    )
    corpus = read(tmp_path, text=ALL)
    assert corpus.num_documents == 2
    check_names(corpus.notes, "Parquet", "'b.txt'")


def test_hidden_files_among_texts_are_left_out_and_counted(tmp_path):
    fill(
        tmp_path,
        {
            "a.txt": b"one word",
            "._a.txt": b"\0\5junk",
            "__MACOSX/._a.txt": b"\0",
            "_b.txt": b"two words",
        },
    )
    corpus = read(tmp_path, text=ALL)
    assert corpus.titles == ("_b.txt", "a.txt")
    assert (
        "Files whose names begin with a point, or that of their folder, are left out: 2."
        in corpus.notes
    )


def test_a_link_that_leads_back_ends(tmp_path):
    folder = fill(tmp_path / "t", {"y=1/a.parquet": {"x": [1.5]}})
    (folder / "loop").symlink_to(folder)
    (folder / "y=1" / "y=2").symlink_to(folder)
    assert read_columns(str(folder))["x"].tolist() == [1.5]


def test_parts_that_are_links_are_read(tmp_path):
    fill(tmp_path, {"elsewhere/a.parquet": {"x": [1.5]}})
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "y=1").symlink_to(tmp_path / "elsewhere")
    assert read_columns(str(tmp_path / "t"))["y"].tolist() == [1]
    (tmp_path / "t" / "y=2").symlink_to(tmp_path / "elsewhere")
    assert read_columns(str(tmp_path / "t"))["y"].tolist() == [1, 2]


def test_a_store_is_read_as_a_folder_is():
    store = fsspec.filesystem("memory")
    tables = {"y=1/a.parquet": {"x": [1, 2]}, "y=2/a.parquet": {"x": [0.5]}}
    try:
        for name, columns in tables.items():
            with store.open(f"/parts/{name}", "wb") as file:
                parquet.write_table(arrow.table(columns), file)
        for name in ("_SUCCESS", "y=1/._a.parquet", "y=1/_b.parquet"):
            store.pipe(f"/parts/{name}", b"no")
        columns, names, matrix = everything_at("memory://parts")
        assert columns == {"x": [1, 2, 0.5], "y": [1, 1, 2]}
        assert (names, matrix) == (["x", "y"], [[1, 1], [2, 1], [0.5, 2]])
        store.pipe("/parts/old/a.parquet", b"no")
        with pytest.raises(DataError, match=r"'old/a.parquet' beside 'y=1/a.parquet'"):
            vi.data.rows("memory://parts")
    finally:
        store.rm("/parts", recursive=True)


def everything_at(address):
    table = vi.data.rows(address)
    columns = {name: values.tolist() for name, values in read_columns(address).items()}
    return columns, table.columns, table.take(np.arange(table.num_groups)).tolist()


@pytest.mark.parametrize("name", ["__index_level_0__", "__null_dask_index__"])
def test_the_index_of_a_frame_is_no_column(name, tmp_path):
    """pandas and Dask write it beside the columns."""
    fill(tmp_path, {"a.parquet": {"x": [1.5, 2.5], name: [7, 8]}})
    notes = Notes()
    assert list(read_columns(str(tmp_path), notes=notes)) == ["x"]
    assert notes.texts() == (
        f"The column {name!r} is left out: it is the index of a data frame. Rename it to have it "
        "read.",
    )
    with pytest.warns(UserWarning, match=f"not read: '{name}', the index of a data frame"):
        table = vi.data.rows(tmp_path)
    assert table.columns == ["x"]
    assert vi.data.rows(tmp_path, [name]).take(np.arange(2)).tolist() == [[7], [8]]
    fill(tmp_path, {"a.parquet": {"some": ["one word", "two words"], name: [7, 8]}})
    assert read(tmp_path, text=ALL).num_documents == 2


def test_the_index_that_pandas_writes_is_left_out(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"x": [1.0, 2.0, 3.0]}).iloc[[0, 2, 1]].to_parquet(tmp_path / "a.parquet")
    assert "__index_level_0__" in parquet.read_schema(tmp_path / "a.parquet").names
    assert list(read_columns(str(tmp_path / "a.parquet"))) == ["x"]


def test_parts_by_names_alone():
    names = ["y=2/b.parquet", "y=1/a.parquet", "y=1/_SUCCESS", "notes.txt", "_y=3/.a.parquet"]
    assert find_parts(names, "t") == [
        Part("y=1/a.parquet", {"y": "1"}),
        Part("y=2/b.parquet", {"y": "2"}),
    ]
    assert find_parts(["_y=1/a.parquet"], "t") == [Part("_y=1/a.parquet", {"_y": "1"})]
    assert find_parts([], "t") == []
