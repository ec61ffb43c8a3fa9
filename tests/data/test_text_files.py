import functools
import gzip
import json

import pytest

from tests.naming import naming
from vijax.data.tables.formats import Dialect
from vijax.data.texts.text_files import column_texts, jsonl_records, text_folder, text_lines

jsonl, csv_rows, parquet = (
    functools.partial(column_texts, kind) for kind in ("jsonl", "csv", "parquet")
)


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def test_folder_of_texts_in_the_order_of_names(tmp_path):
    write(tmp_path / "b.txt", "\ufeffsecond\nline")
    write(tmp_path / "sub" / "c.txt", "third")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"first"))
    write(tmp_path / "notes.md", "no")
    assert list(text_folder(tmp_path)) == [
        ("a.txt.gz", "first"),
        ("b.txt", "second\nline"),
        ("sub/c.txt", "third"),
    ]


def test_lines_of_a_file(tmp_path):
    path = write(tmp_path / "x.txt", "one\r\n\ntwo")
    assert list(text_lines(path)) == [("x.txt:1", "one"), ("x.txt:2", ""), ("x.txt:3", "two")]


def test_jsonl(tmp_path):
    rows = [{"id": 1, "text": "one"}, {"text": "zwei \u00fc", "title": "Two"}]
    path = write(
        tmp_path / "x.jsonl", "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    )
    assert list(jsonl(path)) == [("x.jsonl:1", "one"), ("Two", "zwei ü")]


def test_csv_with_quoted_lines_and_tsv(tmp_path):
    path = write(tmp_path / "x.csv", 'id,text,title\n1,"a, ""b""\nc",A\n2,d,\n')
    assert list(csv_rows(path)) == [("A", 'a, "b"\nc'), ("x.csv:4", "d")]
    path = write(tmp_path / "x.tsv", "id\tbody\n1\ta, b\n")
    assert list(csv_rows(path, "body")) == [("x.tsv:2", "a, b")]


def test_csv_holds_long_documents(tmp_path):
    path = write(tmp_path / "x.csv", "text\n" + "word " * 100_000)
    assert len(next(csv_rows(path))[1]) == 500_000


def test_parquet(tmp_path):
    arrow, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        arrow.table({"body": ["one", "two"], "title": ["A", ""], "n": [1, 2]}),
        tmp_path / "x.parquet",
    )
    assert list(parquet(tmp_path / "x.parquet", "body")) == [("A", "one"), ("x.parquet:2", "two")]
    pq.write_table(arrow.table({"body": ["one", None]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=naming("x.parquet", "2", "'body'")):
        list(parquet(tmp_path / "x.parquet"))


@pytest.mark.parametrize(
    ("read", "name", "text", "message"),
    [
        (
            jsonl,
            "x.jsonl",
            '{"text": "a"}\n{"text": \n',
            r"x\.jsonl:2: expected a JSON object, got '{\"text\": '",
        ),
        (jsonl, "x.jsonl", '["a"]\n', r"x\.jsonl:1: expected a JSON object"),
        (jsonl, "x.jsonl", '{"text": "a", "text": "b"}\n', r"the key 'text' stands more than once"),
        (
            jsonl,
            "x.jsonl",
            '{"txet": "a", "id": 1}',
            r":1: expected a column 'text', got none.*did you mean 'txet'\?",
        ),
        (jsonl, "x.jsonl", '{"text": 3}', r"x\.jsonl:1: expected text in column 'text', got 3"),
        (
            jsonl,
            "x.jsonl",
            '{"text": "a"}\n{"text": null}',
            r"x\.jsonl:2: expected text .* got nothing",
        ),
        (
            csv_rows,
            "x.csv",
            "id,txt\n1,a\n",
            r"x\.csv:1: expected a column 'text', got none.*did you mean 'txt'\?",
        ),
        (
            csv_rows,
            "x.csv",
            "id,text\n1\n",
            r"x\.csv:2: expected text in column 'text', got nothing",
        ),
        (csv_rows, "x.csv", 'id,text\n1,"a" b\n', r"x\.csv:2: expected CSV"),
        (csv_rows, "x.csv", 'id,text\n1,"a\n', r"x\.csv:[23]: expected CSV"),
        (csv_rows, "x.csv", "", r"x\.csv:1: expected a header line of distinct names, got nothing"),
    ],
)
def test_faults_are_named_by_line(tmp_path, read, name, text, message):
    with pytest.raises(ValueError, match=message) as error:
        list(read(write(tmp_path / name, text)))
    assert "To mend it: " in str(error.value)


@pytest.mark.parametrize(
    ("read", "name", "before"),
    [(text_lines, "x.txt", "ok\n"), (jsonl, "x.jsonl", '{"text": "ok"}\n')],
)
def test_wrong_encoding_names_file_and_byte(tmp_path, read, name, before):
    path = write(tmp_path / name, before + '{"text": "caf\u00e9 noir"}', encoding="latin-1")
    place = path.read_bytes().index(b"\xe9")
    message = (
        rf"{name}:2: expected utf-8 text, got the bytes .* at byte offset {place}, in cp1252 "
        rf"'{{\"text\": \"café noir\"}}'\. To mend it: pass encoding='cp1252' if that reads well, "
    )
    with pytest.raises(ValueError, match=message):
        list(read(path))
    assert "café" in list(read(path, dialect=Dialect("latin-1")))[1][1]


def test_wrong_encoding_in_a_folder(tmp_path):
    write(tmp_path / "a.txt", "fine")
    write(tmp_path / "b.txt", "caf\u00e9", encoding="latin-1")
    with pytest.raises(ValueError, match=naming("b.txt:", "'\\xe9'", "3")):
        list(text_folder(tmp_path))
    write(tmp_path / "a.txt", "caf\u00e9", encoding="utf-16-le")
    with pytest.raises(ValueError, match=naming("a.txt:", "encoding='utf", "-le", "' or '", "-be")):
        list(text_folder(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\x81 \xa4")
    with pytest.raises(ValueError, match=naming("a.txt:", "offset 0", "encoding='cp1252'")):
        list(text_folder(tmp_path))
    with pytest.raises(ValueError, match=naming("encoding:", "Python", "'klingon'")):
        list(text_folder(tmp_path, dialect=Dialect("klingon")))


def test_unreadable_files(tmp_path):
    with pytest.raises(ValueError, match=r"expected files ending in \.txt, got none"):
        list(text_folder(tmp_path))
    path = write(tmp_path / "x.parquet", "PAR1 not really")
    with pytest.raises(ValueError, match=naming("x.parquet:", "Parquet")):
        list(parquet(path))
    (tmp_path / "x.txt.gz").write_bytes(gzip.compress(b"some text" * 999)[:-12])
    with pytest.raises(ValueError, match=r"x\.txt\.gz: expected whole gzip data"):
        list(text_lines(tmp_path / "x.txt.gz"))


def test_whole_numbers_of_json_are_one_label_however_written(tmp_path):
    lines = ['{"text": "a", "n": 1}', '{"text": "b", "n": 1.0}', '{"text": "c", "n": 1e0}']
    large = '{"text": "d", "n": 12345678901234567}'
    path = write(tmp_path / "x.jsonl", "\n".join([*lines, large, '{"text": "e", "n": 1.5}']))
    numbers = [row["n"] for *_, row in jsonl_records(path).rows(None)]
    assert list(map(repr, numbers)) == ["1", "1", "1", "12345678901234567", "1.5"]
