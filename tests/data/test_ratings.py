"""Tables of users, items and counts."""

import numpy as np
import pytest

from tests.naming import check_names, naming
from vijax.data import ratings, read


def written(folder, text, name="ratings.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_row_is_a_user_an_item_and_a_count(tmp_path):
    corpus = read(
        written(
            tmp_path, "item;user;when;count\n007;ann;1;2\nball;bob;2;1\n007;ann;3;1\n7;bob;4;0\n"
        )
    )
    assert corpus.vocabulary == ("007", "ball", "7")
    assert corpus.titles == ("ann", "bob")
    assert corpus.to_scipy().toarray().tolist() == [[3, 0, 0], [0, 1, 0]]
    known = read(tmp_path / "ratings.csv", vocabulary=["ball", "bat", "007"])
    assert known.to_scipy().toarray().tolist() == [[0, 0, 3], [1, 0, 0]]


def test_without_counts_a_row_counts_once_and_may_be_kept_in_files(tmp_path):
    path = written(tmp_path, "user,item\na,x\na,y\nb,x\n", "who.csv")
    corpus = read(path, folder=tmp_path / "kept")
    assert corpus.mapped
    assert corpus.to_scipy().toarray().tolist() == [[1, 1], [1, 0]]


def test_a_table_of_texts_stays_one(tmp_path):
    assert read(written(tmp_path, "user,item,text\na,x,cat dog\nb,y,dog cat\n")).vocabulary == (
        "cat",
        "dog",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item,count\na,x,2\na,y,2.5\n", "column 'count': expected whole counts"),
        ("user,item,count\na,x,-1\n", "column 'count': expected"),
        ("user,item,count\na,x,\n", "line 2.*expected a count|expected a count.*line 2"),
        ("user,item\na,\n", "column 'item'.*expected a name|expected a name"),
    ],
)
def test_a_wrong_table_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path, text))


def test_columns_must_be_there(tmp_path):
    path = written(tmp_path, "who,item\na,x\n")
    with pytest.raises(
        ValueError, match="expected the columns user and item, got the columns who, item"
    ):
        read(path, format="ratings")


# --- common headers, ratings, tables in memory ----------------------------------------------------
MOVIES = (
    "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,4.0,1260759179\n"
    "007,31,5.0,1\n7,31,3,2\n1,31,4.5,9\n"
)


@pytest.mark.parametrize(
    "header",
    [
        "userId,movieId",
        "User,Item",
        "user_id;item_id",
        "USER ID,Product-ID",
        "uid,isbn",
        "customers,item",
    ],
)
def test_common_headers_are_known_and_told(tmp_path, header):
    mark = ";" if ";" in header else ","
    corpus = read(written(tmp_path, f"{header}\nann{mark}7\nbob{mark}07\n"))
    assert (corpus.titles, corpus.vocabulary) == (("ann", "bob"), ("7", "07"))
    user, item = header.split(mark)
    assert corpus.notes[-1] == f"Users are read from the column {user!r}, items from {item!r}."


def test_ratings_are_not_guessed_about(tmp_path):
    path = written(tmp_path, MOVIES)
    with pytest.raises(ValueError, match=naming("'rating'", "least=4")):
        read(path)
    liked = ratings(path, least=4)
    assert (liked.titles, liked.vocabulary) == (("1", "007", "7"), ("31", "1029"))
    assert liked.to_scipy().toarray().tolist() == [
        [0, 1],
        [1, 0],
        [0, 0],
    ]  # by the time the last of 31 by 1 is 2.5
    check_names("\n".join(liked.notes), "2", "4 items", "'rating'")
    check_names(liked.notes, "1 rows", "'timestamp'")
    once = ratings(path, count="none")
    assert once.to_scipy().toarray().tolist() == [[2, 1], [1, 0], [1, 0]]
    assert (
        "The ratings in 'rating' are not read: a row counts the same whatever they say."
        in once.notes
    )
    with pytest.raises(ValueError, match=naming("2.5", "least=4")):
        ratings(path, count="rating")
    whole = ratings(written(tmp_path, "user,item,stars\na,x,5\nb,x,1\n"), count="stars")
    assert whole.to_scipy().toarray().tolist() == [[5], [1]]


def test_fractions_are_explained(tmp_path):
    path = written(tmp_path, "user,item,count\na,x,0.25\na,y,2\n")
    with pytest.raises(ValueError, match=naming("0.25", "count='none'")):
        read(path)


def test_columns_are_named_where_their_names_say_nothing(tmp_path):
    path = written(tmp_path, "who,what,n,day\na,x,2,2024-01-01\nb,y,1,2024-01-02\n")
    corpus = ratings(path, user="who", item="what", count="n")
    assert corpus.to_scipy().toarray().tolist() == [[2, 0], [0, 1]]
    assert corpus.notes[0] == "Not read: the column 'day'."
    with pytest.raises(ValueError, match=naming("'whom'", "'who'")):
        ratings(path, user="whom", item="what")
    exact = read(written(tmp_path, "user_id,user,item,item_name,item_id\n1,a,x,y,z\n"))
    assert (exact.titles, exact.vocabulary) == (("a",), ("x",))
    with pytest.raises(ValueError, match=naming("'user_id'", "'customer'")):
        read(written(tmp_path, "user_id,customer,item\na,b,x\n"))
    with pytest.raises(
        ValueError, match="expected a column of ratings or counts to compare with it, got none"
    ):
        ratings(written(tmp_path, "user,item\na,x\n"), least=4)


def test_settings_that_make_no_sense_are_named():
    table = {"user": ["a"], "item": ["x"], "rating": [5]}
    with pytest.raises(
        ValueError, match="expected two columns, of users and of items, got 'item' for both"
    ):
        ratings(table, user="item", least=4)
    for wrong in ("4", float("nan")):
        with pytest.raises(ValueError, match="least: expected a number, got"):
            ratings(table, least=wrong)
    with pytest.raises(
        ValueError,
        match=naming("source:", "Arrow"),
    ):
        ratings([("a", "x")])
    with pytest.raises(ValueError, match=naming("column 'rating':", "'good'", "0")):
        ratings({**table, "rating": ["good"]}, least=4)


def test_the_last_rating_by_its_date_counts(tmp_path):
    text = "user,item,rating,date\na,x,5,2024-02-01 10:00\na,x,1,2024-01-01\nb,y,5,2024-01-01\n"
    assert ratings(written(tmp_path, text), least=4).to_scipy().toarray().tolist() == [
        [1, 0],
        [0, 1],
    ]
    with pytest.raises(ValueError, match=naming("column 'date':", "numbers")):
        ratings(written(tmp_path, text.replace("2024-01-01", "1/2/24")), least=4)


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("02.01.2024", "01.02.2024"),
        ("31/1/2024", "1/2/2024"),
        ("1/31/2024 11:40 PM", "2/1/2024 1:00 AM"),
        ("31 Jan 2024", "1 February 2024"),
        ("2024Q1", "2024Q2"),
        ("2024-01-31T23:00:00Z", "2024-02-01T02:00:00+02:00"),
        ("5/6/2024", "7/8/2024"),  # day or month first: the second is later in either reading
    ],
)
def test_dates_of_ratings_are_read_as_those_of_any_table(early, late, tmp_path):
    text = f"user,item,rating,date\na,x,5,{late}\na,x,1,{early}\nb,y,5,{early}\n"
    assert ratings(written(tmp_path, text), least=4).to_scipy().toarray().tolist() == [
        [1, 0],
        [0, 1],
    ]


def test_dates_whose_order_nobody_can_tell_are_refused(tmp_path):
    text = "user,item,rating,date\na,x,5,2/1/2024\na,x,1,1/2/2024\nb,y,5,1/2/2024\n"
    with pytest.raises(ValueError, match=naming("column 'date':", "'2/1/2024'")):
        ratings(written(tmp_path, text), least=4)


TYPED = {"user": ["007", "7", "007"], "item": [1, 2, 1.0], "count": [1, 2, 3]}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict", "parquet", "xlsx"])
def test_tables_of_every_kind_are_read_alike(library, tmp_path):
    source = TYPED if library == "dict" else None
    if library in ("pandas", "parquet", "xlsx"):
        pandas = pytest.importorskip("pandas")
        source = frame = pandas.DataFrame(TYPED)
        if library == "parquet":
            source = tmp_path / "r.parquet"
            frame.to_parquet(source)
        if library == "xlsx":
            pytest.importorskip("python_calamine")
            pytest.importorskip("openpyxl")
            source = tmp_path / "r.xlsx"
            frame.to_excel(source, index=False)
    elif library != "dict":
        package = pytest.importorskip(library)
        table = {**TYPED, "item": [1, 2, 1]}
        source = package.table(table) if library == "pyarrow" else package.DataFrame(table)
    corpus = read(source)
    assert (corpus.titles, corpus.vocabulary) == (("007", "7"), ("1", "2"))
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), [[4, 0], [0, 2]])


def test_names_are_on_one_line(tmp_path):
    corpus = read(written(tmp_path, 'user,item\na,"The\r\nsea"\nb,x\n'))
    assert corpus.vocabulary == ("The sea", "x")
    assert "Line breaks in names are read as blanks, as in 'The\\nsea'." in corpus.notes
    assert read(corpus.save(tmp_path / "kept")).vocabulary == corpus.vocabulary
    with pytest.raises(ValueError, match=naming("column 'item':", "names")):
        read({"user": ["a", "b"], "item": ["The\nsea", "The sea"]})


def test_a_missing_user_in_memory_is_named():
    with pytest.raises(
        ValueError,
        match=naming("column 'user':", "1"),
    ):
        read({"user": ["a", None], "item": ["x", "y"]})


def test_a_named_column_of_texts_goes_before_users_and_items(tmp_path):
    path = written(tmp_path, "user,item,words\na,x,cat dog\nb,y,dog cat\n")
    assert read(path, column="words").vocabulary == ("cat", "dog")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_rating_is_not_below_itself_in_any_type(dtype):
    """3.6 in float32 is less than 3.6 in float64."""
    rating = np.array([3.6, 1.0, 3.6, 4.2], dtype)
    table = {"user": list("aabb"), "item": list("xyxy"), "rating": rating}
    assert ratings(table, least=3.6).num_tokens == 3
    assert ratings(table, least=3.7).num_tokens == 1
