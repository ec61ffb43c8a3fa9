"""Files that say that they are larger than they are, or become far larger when they are unpacked:
an error that names the file, before memory is taken; and nothing in them is run or reaches another
place."""

import datetime
import gzip
import io
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.data import spreadsheets
from tests.naming import naming
from vijax import files, memory
from vijax.data import DataError, read, rows, shards
from vijax.data.reading import files as reading
from vijax.data.tables import sheet_process, sheets
from vijax.data.tables.extents import Extent, FileSizes, file_sizes, largest_extent
from vijax.data.tables.formats import load_arrays
from vijax.data.tables.sheets import most_memory, open_sheet
from vijax.data.tables.table_files import read_columns, read_table
from vijax.data.texts.text import TextSettings

ALL = TextSettings(min_df=1, max_df=1.0)
MIB = 1 << 20


@pytest.fixture
def calm(monkeypatch):
    """8 GiB of memory, on any machine."""
    monkeypatch.setattr(memory, "free_bytes", lambda: 8 << 30)
    for module in (files, sheets, sys.modules["vijax.data.reading.parquet_values"]):
        monkeypatch.setattr(module, "free_bytes", lambda: 8 << 30)


# --- spreadsheets ---------------------------------------------------------------------------------
def far_xlsx(path):
    return spreadsheets.xlsx(path, {"A1": "text", "A2": "a word", "XFD1048576": 1})


def far_xls(path):
    return spreadsheets.xls(path, {(0, 0): 1.0, (65535, 65535): 2.0})


def far_ods(path):
    last = spreadsheets.ods_cell(None, 16383) + spreadsheets.ods_cell(5)
    gap = spreadsheets.ods_row(spreadsheets.ods_cell(None, 16384), 1_048_574)
    return spreadsheets.ods(
        path, spreadsheets.ods_row(spreadsheets.ods_cell(1)) + gap + spreadsheets.ods_row(last)
    )


def wide_ods(path):
    """Rows that are repeated, with something in every cell."""
    many = spreadsheets.ods_row(spreadsheets.ods_cell(1, 16384), 1_048_576)
    return spreadsheets.ods(path, many)


def beyond_xlsx(path):
    return spreadsheets.xlsx(path, {"A1": "text", "A2": "a word", "ZZZZZZ99999999": 1})


FAR = {
    "far.xlsx": (
        far_xlsx,
        r"1,048,576 rows of 16,384 columns up to the cell XFD1048576, of which 3 cells hold",
    ),
    "beyond.xlsx": (beyond_xlsx, "up to the cell ZZZZZZ99999999, of which 3 cells hold something"),
    "far.ods": (
        far_ods,
        r"1,048,576 rows of 16,384 columns up to the cell XFD1048576, of which 2 cells hold",
    ),
    "wide.ods": (wide_ods, "17,179,869,184 cells hold something"),
    "far.xls": (far_xls, "one that takes more.*delete cells that stand far from the table"),
}


@pytest.mark.skipif(not sheets.CAN_LIMIT, reason="memory is limited on Linux")
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize(
    "reads", [read_columns, lambda path: read(path, text=ALL)], ids=["table", "texts"]
)
def test_a_cell_in_the_far_corner_is_an_error_of_this_process(name, reads, tmp_path, calm):
    """It ended the process: "memory allocation of 549755813888 bytes failed"."""
    pytest.importorskip("python_calamine")
    make, message = FAR[name]
    path = make(tmp_path / name)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=f"{name}: expected a .*1 GiB of memory, got .*{message}"):
        reads(str(path))


@pytest.mark.parametrize("name", ["far.xlsx", "beyond.xlsx", "far.ods", "wide.ods"])
def test_where_memory_cannot_be_limited_the_extent_is_found_before_the_library_reads(
    name, tmp_path, calm, monkeypatch
):
    pytest.importorskip("python_calamine")
    make, message = FAR[name]
    path = make(tmp_path / name)
    monkeypatch.setattr(sheets, "CAN_LIMIT", False)
    monkeypatch.setattr(sheets, "_start_process", lambda *_: pytest.fail("the library was asked"))
    with pytest.raises(DataError, match=message):
        read_columns(str(path))


def test_the_remedy_works(tmp_path, calm):
    pytest.importorskip("python_calamine")
    path = far_xlsx(tmp_path / "a.xlsx")
    with pytest.raises(
        DataError, match="delete what stands far from the table, such as in XFD1048576"
    ):
        read_columns(str(path))
    spreadsheets.xlsx(path, {"A1": "text", "A2": "a word"})
    assert list(read_columns(str(path))["text"]) == ["a word"]


def test_cells_without_a_value_may_stand_anywhere(tmp_path):
    """Programs leave formats and repeated empty rows up to the last row and column."""
    pytest.importorskip("python_calamine")
    empty = spreadsheets.ods_cell(None, 16_380)
    first = spreadsheets.ods_row(spreadsheets.ods_cell(1) + spreadsheets.ods_cell(2) + empty)
    last = spreadsheets.ods_row(spreadsheets.ods_cell(None, 16_384), 1_048_575)
    path = spreadsheets.ods(tmp_path / "a.ods", first + last)
    assert open_sheet(path).rows == [[1, 2]]
    assert largest_extent(path) == Extent(1, 2, 2, "B1")


def test_a_sheet_of_many_rows_is_read_as_before(tmp_path):
    """Each cell of 10,000 rows is compared."""
    pytest.importorskip("python_calamine")
    count = 10_000
    cells = {f"{letter}1": letter for letter in "bcd"}
    cells |= {
        f"{letter.upper()}{2 + row}": row / 7 + place
        for row in range(count)
        for place, letter in enumerate("bcd")
    }
    cells = {name.upper(): value for name, value in cells.items()}
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", cells)
    found = read_columns(str(path))
    for place, letter in enumerate("bcd"):
        np.testing.assert_allclose(found[letter], np.arange(count) / 7 + place, rtol=1e-15)
    assert largest_extent(path, 1 << 30) == Extent(count + 1, 3, 3 * count + 3, f"D{count + 1}")


def test_dates_times_and_truth_come_through_as_they_are_in_the_sheet(tmp_path):
    pytest.importorskip("python_calamine")
    typed = {
        "date": 'office:date-value="2020-02-29"',
        "time": 'office:time-value="PT13H05M07S"',
        "boolean": 'office:boolean-value="true"',
        "float": 'office:value="-1.5"',
    }
    texts = [*typed, "[1]"]
    head = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
        for text in texts
    )
    cells = "".join(
        f'<table:table-cell office:value-type="{kind}" {said}/>' for kind, said in typed.items()
    )
    path = spreadsheets.ods(
        tmp_path / "a.ods", spreadsheets.ods_row(head) + spreadsheets.ods_row(cells)
    )
    first, second = open_sheet(path).rows
    assert first == texts
    date, time, truth, number, missing = second
    assert (date, truth, number, missing) == (datetime.date(2020, 2, 29), True, -1.5, "")
    assert isinstance(time, datetime.time | datetime.timedelta)
    moments = [
        datetime.datetime(2020, 2, 29, 13, 5, 7, 250_000),
        datetime.timedelta(days=-2, seconds=3),
        time,
    ]
    assert [sheet_process.from_json(sheet_process.as_json(moment)) for moment in moments] == moments


@pytest.mark.parametrize("last", [b'{"rows": 3}\n', b'{"ro', b""])
def test_a_process_that_ended_before_all_rows_came_has_not_read_the_sheet(last):
    said = [b'{"sheets": ["a"], "sheet": "a"}\n', b'{"numbers": [1, 3]}\n', b"[[1], [2]]\n"]
    assert not sheets._read([*said, last]).is_complete
    assert sheets._read([*said, b'{"rows": 2}\n']).is_complete


def test_the_memory_that_a_sheet_may_take_grows_with_what_is_in_it(calm):
    small, large = most_memory(FileSizes(1000, 1000)), most_memory(FileSizes(10 * MIB, 100 * MIB))
    assert small == (1 << 30) + 32_000
    assert large == (1 << 30) + 3200 * MIB
    assert most_memory(FileSizes(100 * MIB, 100 << 30)) == int(0.8 * (8 << 30))


def test_a_limit_is_one_where_no_memory_is_free(monkeypatch):
    """0 would be none."""
    monkeypatch.setattr(sheets, "free_bytes", lambda: 0)
    assert most_memory(FileSizes(1000, 1000)) == 1 << 29


def test_a_program_that_cannot_start_another_reads_sheets_itself(tmp_path, monkeypatch, calm):
    """A frozen one would start itself."""
    pytest.importorskip("python_calamine")
    monkeypatch.setattr(sheets.sys, "frozen", True, raising=False)
    monkeypatch.setattr(sheets.subprocess, "Popen", lambda *_, **__: pytest.fail("it was started"))
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", {"A1": "x", "A2": 1})
    assert open_sheet(path).rows == [["x"], [1]]
    far_xlsx(path)
    with pytest.raises(DataError, match="up to the cell XFD1048576"):
        open_sheet(path)
    path.write_bytes(b"no")
    with pytest.raises(DataError, match=r"a.xlsx: expected a whole spreadsheet"):
        open_sheet(path)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_names_of_files_may_be_any_bytes(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    monkeypatch.chdir(tmp_path)
    for name in (
        b"-x.xlsx",
        b"a b\n.xlsx",
        b"caf\xe9.xlsx",
        "größe \U0001f600.xlsx".encode(),
        b"--help.xlsx",
    ):
        path = Path(os.fsdecode(name))
        spreadsheets.xlsx(tmp_path / path, {"A1": "x", "A2": 1})
        assert open_sheet(path).rows == [["x"], [1]]


def test_a_long_text_that_many_cells_share_is_no_end_of_this_process(tmp_path, calm):
    """30,000 letters in 60,000 cells, from 10 kB: 1.8 GB as Python has them."""
    pytest.importorskip("python_calamine")
    if not sheets.CAN_LIMIT:
        pytest.skip("memory is limited on Linux")
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", {"A1": "x"})
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    rows = "".join(f'<row r="{row}"><c t="s"><v>0</v></c></row>' for row in range(1, 60_001))
    head = f'<worksheet xmlns="{spreadsheets.SHEET}"><sheetData>'
    parts["xl/worksheets/s1.xml"] = f"{head}{rows}</sheetData></worksheet>".encode()
    parts["xl/sharedStrings.xml"] = (
        f'<sst xmlns="{spreadsheets.SHEET}"><si><t>{"x" * 30_000}</t></si></sst>'.encode()
    )
    link = (
        f'<Relationship Id="r2" Type="{spreadsheets.KINDS}/sharedStrings" '
        'Target="sharedStrings.xml"/></Rel'
    )
    parts["xl/_rels/workbook.xml.rels"] = parts["xl/_rels/workbook.xml.rels"].replace(
        b"</Rel", link.encode()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    with pytest.raises(
        DataError,
        match=naming("a.xlsx:", "GiB of memory", "save the sheet as CSV"),
    ):
        open_sheet(path)


def test_a_zip_is_not_believed_beyond_what_can_be_packed_in_it(tmp_path):
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", {"A1": 1})
    raw = bytearray(path.read_bytes())
    honest = file_sizes(path)
    place = raw.rindex(b"PK\x01\x02")
    raw[place + 24 : place + 28] = struct.pack("<I", 0xFFFFFFF0)  # the size of the last part
    path.write_bytes(raw)
    assert honest.unpacked < 2000
    assert file_sizes(path).unpacked < 2 * MIB


def test_a_spreadsheet_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    monkeypatch.setattr(sheets, "LEAST_BYTES", 8 * MIB)
    path = tmp_path / "a.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("xl/worksheets/s.xml", b" " * (12 * MIB))
    with pytest.raises(DataError, match=naming("a.xlsx:", "200", "12", "MiB")):
        read_columns(str(path))


def test_parts_of_a_sheet_reach_no_other_place(tmp_path):
    """Parts are read by name, and none is unpacked: `../` leads nowhere."""
    pytest.importorskip("python_calamine")
    inner = tmp_path / "inner"
    inner.mkdir()
    more = [
        ("../marker", "x"),
        ("/marker", "x"),
        (str(tmp_path / "marker"), "x"),
        ("..\\marker", "x"),
    ]
    path = spreadsheets.xlsx(inner / "a.xlsx", {"A1": "x", "A2": 1, "A3": 2}, more)
    before = os.getcwd()
    os.chdir(inner)
    try:
        np.testing.assert_array_equal(read_columns(str(path))["x"], [1, 2])
    finally:
        os.chdir(before)
    assert not list(tmp_path.rglob("*marker*"))
    assert not Path("/marker").exists()


ENTITIES = (
    '<!DOCTYPE worksheet [<!ENTITY x SYSTEM "file:///etc/hostname"><!ENTITY y "yyyyyyyyyy">]>'
)


def test_entities_of_a_sheet_read_no_file(tmp_path):
    pytest.importorskip("python_calamine")
    secret = tmp_path / "secret"
    secret.write_text("do not show")
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", {"A1": "x", "A2": "SEEN"})
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name).decode() for name in file.namelist()}
    sheet = parts["xl/worksheets/s1.xml"].replace("SEEN", "&x;")
    parts["xl/worksheets/s1.xml"] = (
        ENTITIES.replace("file:///etc/hostname", secret.as_uri()) + sheet
    )
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    assert largest_extent(path) is None
    try:
        found = str(read_columns(str(path)))
    except DataError as error:
        found = str(error)
    assert "do not show" not in found


def test_the_other_process_reads_nothing_of_the_folder_it_starts_in(tmp_path, monkeypatch):
    """A file json.py in the working folder, or on PYTHONPATH, is not imported."""
    pytest.importorskip("python_calamine")
    marker = tmp_path / "marker"
    for name in ("json", "python_calamine", "sitecustomize", "datetime"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    path = spreadsheets.xlsx(tmp_path / "a.xlsx", {"A1": "x", "A2": 1})
    assert open_sheet(path).rows == [["x"], [1]]
    assert not marker.exists()


def test_headers_and_cells_of_a_sheet_are_text_whatever_they_say(tmp_path, monkeypatch):
    pytest.importorskip("python_calamine")
    monkeypatch.chdir(tmp_path)
    evil = "__import__('os').system('touch marker')"
    path = spreadsheets.xlsx(
        tmp_path / "a.xlsx", {"A1": evil, "B1": "text", "A2": evil, "B2": f"{evil} word"}
    )
    found = read_columns(str(path))
    assert list(found) == [evil, "text"]
    assert list(found[evil]) == [evil]
    assert "word" in (read(path, text=ALL).vocabulary or ())
    assert not (tmp_path / "marker").exists()


# --- arrays ---------------------------------------------------------------------------------------
def npy(descr, shape, body=bytes(64)):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": descr, "fortran_order": False, "shape": shape}
    )
    return head.getvalue() + body


LIES = {
    "long": ("<f8", (10**12,)),
    "some": ("<f8", (3 * 10**8,)),
    "square": ("<f8", (2**40, 2**40)),
    "below 0": ("<f8", (-8,)),
    "no rows": ("<f8", (0, 10**15)),
    "no columns": ("<f8", (10**15, 0)),
    "empty words": ("<U0", (10**12,)),
    "long words": ("<U400000000", (10,)),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_an_array_that_says_it_is_larger_than_its_file_is_refused(
    lie, ending, tmp_path, monkeypatch
):
    path = tmp_path / f"a{ending}"
    content = npy(*LIES[lie])
    if ending == ".npz":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it was read"))
    for reads in (
        load_arrays,
        lambda path: read_columns(str(path)),
        lambda path: read(path, format="npz"),
    ):
        with pytest.raises(
            DataError, match=rf"a\{ending}: expected .*is said to have the shape \("
        ):
            reads(path)


def test_arrays_that_do_not_fit_in_memory_are_refused_before_they_are_unpacked(
    tmp_path, monkeypatch
):
    """A file of 60 kB that is 48 MB when it is unpacked, honestly."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros(6_000_000))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(files, "free_bytes", lambda: 20 * MIB)
    with pytest.raises(
        DataError, match=r"data that fit in memory.*its arrays take 45.8 MiB, and 20 MiB are free"
    ):
        read_columns(str(path))
    monkeypatch.setattr(files, "free_bytes", lambda: 100 * MIB)
    assert len(read_columns(str(path))["x"]) == 6_000_000


def test_a_zip_that_says_its_parts_are_large_is_not_believed(tmp_path):
    """A size of 3 GB in its table of contents, for an array that says so too."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", npy("<f8", (400_000_000,)))
    raw = bytearray(path.read_bytes())
    place = raw.rindex(b"PK\x01\x02")
    raw[place + 24 : place + 28] = struct.pack("<I", 3_300_000_000)
    path.write_bytes(raw)
    with pytest.raises(
        DataError,
        match=naming("a.npz:", "'x'", "(400000000,)", "77,400 bytes"),
    ):
        load_arrays(path)


def test_a_part_that_is_no_array_counts_as_well(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", npy("<f8", (8,)))
        file.writestr("y", bytes(30 * MIB))
    monkeypatch.setattr(files, "free_bytes", lambda: 20 * MIB)
    with pytest.raises(DataError, match="its arrays take 30 MiB"):
        read_columns(str(path))


class Touch:
    """Touches a file where it is taken out of a pickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize(
    "kind", ["objects.npy", "objects.npz", "bare.npy", "bare.npz", "bare.parquet", "bare.xlsx"]
)
def test_no_pickle_is_loaded(kind, tmp_path):
    marker, path = tmp_path / "marker", tmp_path / kind
    evil = np.array([Touch(marker), 1], object)
    if kind == "objects.npy":
        np.save(path, evil, allow_pickle=True)
    elif kind == "objects.npz":
        np.savez(
            path,
            x=evil,
            indptr=evil,
            indices=evil,
            counts=evil,
            data=evil,
            format="csr",
            shape=[1, 1],
        )
    else:
        path.write_bytes(pickle.dumps(Touch(marker)))
    for reads in (read, lambda path: read_columns(str(path)), lambda path: read_table(str(path))):
        with pytest.raises((DataError, ImportError)):
            reads(path)
    assert not marker.exists()
    with path.open("rb") as file:
        assert b"marker" in file.read()  # the pickle is there


# --- counts ---------------------------------------------------------------------------------------
def announced(path, text):
    path.write_text(text)
    return path


COUNTS = {
    "docword.txt": "100000000\n4\n1\n1 1 2\n",
    "docword.of.txt": "90000000\n4\n50000000\n90000000 1 2\n",
    "x.mtx": "%%MatrixMarket matrix coordinate integer general\n90000000 4 1\n1 1 2\n",
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_announce_far_more_documents_than_they_have_are_refused(name, tmp_path):
    path = announced(tmp_path / name, COUNTS[name])
    with pytest.raises(
        DataError, match=rf"{name}.*at most 1,000,100 documents, there being 1 entries.*0,000,000"
    ):
        read(path, format="uci" if name.startswith("docword") else None)


def test_a_sparse_matrix_of_nearly_no_entries_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    scipy.sparse.save_npz(path, scipy.sparse.coo_matrix(([1], ([0], [0])), (90_000_000, 3)))
    with pytest.raises(DataError, match=naming("x.npz:", "1,000,100 documents", "90,000,000")):
        read(path)


def test_empty_documents_are_taken(tmp_path):
    path = announced(tmp_path / "docword.txt", "5000\n2\n1\n5000 2 1\n")
    assert read(path).num_documents == 5000


# --- gzipped texts --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "name", ["a.txt.gz", "a.csv.gz", "a.jsonl.gz", "docword.a.txt.gz", "a.mtx.gz", "a.dat.gz"]
)
def test_a_gzipped_text_that_unpacks_without_end_is_refused(name, tmp_path, monkeypatch):
    """One line of 32 MB from 32 kB."""
    monkeypatch.setattr(reading, "LEAST_BOMB", 8 * MIB)
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"9" * (32 * MIB), mtime=0))
    with pytest.raises(
        DataError,
        match=f"{name}: expected a gzipped file that unpacks to 200 times its size at most",
    ):
        read(path)


def test_a_gzipped_text_within_bounds_is_read_and_the_remedy_works(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LEAST_BOMB", MIB // 4)
    lines = "one word and another\n" * 60_000
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(DataError, match="unpack it \\(gunzip\\), and name the new file"):
        read(path)
    (tmp_path / "a.txt").write_text(lines)
    assert read(tmp_path / "a.txt", text=ALL).num_documents == 60_000
    path.write_bytes(gzip.compress("\n".join(f"word{i} w{i * i}" for i in range(20_000)).encode()))
    assert read(path, text=ALL).num_documents == 20_000


# --- Parquet --------------------------------------------------------------------------------------
def varint(number):
    number, out = 2 * number, b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def lying(path, table, said):
    """A file of 12,345 rows that says it has others."""
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(table, path)
    raw = path.read_bytes()
    (size,) = struct.unpack("<I", raw[-8:-4])
    foot = raw[-8 - size : -8]
    assert varint(12_345) in foot
    foot = foot.replace(varint(12_345), varint(said))
    path.write_bytes(raw[: -8 - size] + foot + struct.pack("<I", len(foot)) + b"PAR1")
    return str(path)


def of_numbers():
    return pytest.importorskip("pyarrow").table({"a": np.arange(12_345.0)})


def of_counts():
    return pytest.importorskip("pyarrow").table(
        {"ids": [[0, 1]] * 12_345, "counts": [[1, 2]] * 12_345}
    )


def of_texts():
    return pytest.importorskip("pyarrow").table({"text": ["some words"] * 12_345})


LYING = {
    "table": (of_numbers, read_columns),
    "rows": (of_numbers, rows),
    "shards": (of_counts, shards),
}


@pytest.mark.parametrize("kind", LYING)
def test_rows_that_would_not_fit_in_memory_are_refused_before_they_are_read(kind, tmp_path, calm):
    make, reads = LYING[kind]
    path = lying(tmp_path / "a.parquet", make(), 10**12)
    with pytest.raises(DataError, match=naming("a.parquet:", "1,000,000,000,000")):
        reads(path)


ASKED = {
    "table": (of_numbers, read_columns),
    "rows": (of_numbers, lambda path: rows(path).take(np.arange(3))),
    "counts": (of_counts, read),
    "shards": (of_counts, lambda path: shards(path).sizes),
    "texts": (of_texts, lambda path: read(path, text=ALL)),
}


@pytest.mark.parametrize("kind", ASKED)
def test_a_file_with_fewer_rows_than_it_says_is_refused(kind, tmp_path):
    make, reads = ASKED[kind]
    path = lying(tmp_path / "a.parquet", make(), 20_000)
    with pytest.raises(DataError, match=naming("a.parquet", "20,000 rows", "12,345")):
        reads(path)


UNPACKED = {
    "texts": ({"text": ["x" * (4 * MIB)] * 4}, lambda path: read(path, text=ALL)),
    "table": ({"text": ["x" * (4 * MIB)] * 4}, read_columns),
    "counts": ({"ids": [[0] * 2_000_000], "counts": [[1] * 2_000_000]}, read),
    "shards": ({"ids": [[0] * 2_000_000], "counts": [[1] * 2_000_000]}, shards),
    "rows": ({"x": np.zeros(2_000_000)}, rows),
}


@pytest.mark.parametrize("kind", UNPACKED)
def test_a_row_group_that_unpacks_to_more_than_memory_is_refused(kind, tmp_path, monkeypatch):
    """A few kB that are 16 MB, honestly."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns, reads = UNPACKED[kind]
    path = tmp_path / "a.parquet"
    parquet.write_table(
        arrow.table(columns),
        path,
        compression="zstd",
        use_dictionary=kind not in ("texts", "table"),
    )
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(
        sys.modules["vijax.data.reading.parquet_values"], "free_bytes", lambda: 7 * MIB
    )
    with pytest.raises(DataError, match=naming("a.parquet:", "7", "MiB")):
        reads(str(path))


def test_a_text_that_comes_again_and_again_is_in_memory_once(tmp_path):
    """A file of 100 kB whose texts are 20 GB, if each were one of its own."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    words = arrow.array(["word " * 400_000, "other " * 400_000])
    table = arrow.table(
        {"text": arrow.DictionaryArray.from_arrays(np.arange(10_000, dtype=np.int32) % 2, words)}
    )
    parquet.write_table(
        table, tmp_path / "a.parquet", store_schema=False, dictionary_pagesize_limit=1 << 30
    )
    found = read_columns(str(tmp_path / "a.parquet"))["text"]
    assert len(found) == 10_000
    assert len(set(map(id, found))) == 2
    from vijax.data.texts.text_files import parquet_records

    texts = [row["text"] for *_, row in parquet_records(tmp_path / "a.parquet").rows(None)]
    assert len(set(map(id, texts))) == 2
    assert texts[1].startswith("other")


@pytest.mark.parametrize(
    "reads", [read_columns, lambda path: rows(path).take(np.arange(1000))], ids=["table", "rows"]
)
def test_a_flipped_bit_is_found_where_pages_have_checksums(reads, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = arrow.table({"a": np.random.default_rng(0).normal(size=1000)})
    parquet.write_table(
        table, path, compression="none", use_dictionary=False, write_page_checksum=True
    )
    reads(str(path))
    raw = bytearray(path.read_bytes())
    raw[4000] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match=naming("a.parquet:", "Parquet")):
        reads(str(path))


def test_shards_that_are_prepared_here_have_checksums(tmp_path):
    from vijax.data import prepare

    pytest.importorskip("pyarrow")
    folder = prepare([("a", "The cat sat."), ("b", "A dog, a cat!")], tmp_path / "shards")
    (path,) = folder.glob("*.parquet")
    raw = bytearray(path.read_bytes())
    place = raw.index(b"The cat sat.")
    raw[place] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match=naming("part-000000.parquet:", "Parquet")):
        read(folder)
