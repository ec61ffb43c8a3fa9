"""Tables of users, items and counts."""

import pytest

from vijax.data import read


def written(folder, text, name="ratings.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_row_is_a_user_an_item_and_a_count(tmp_path):
    corpus = read(written(tmp_path, "item;user;when;count\n007;ann;1;2\nball;bob;2;1\n007;ann;3;1\n7;bob;4;0\n"))
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
    assert read(written(tmp_path, "user,item,text\na,x,cat dog\nb,y,dog cat\n")).vocabulary == ("cat", "dog")


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
    with pytest.raises(ValueError, match="expected the columns user and item, got the columns who, item"):
        read(path, format="ratings")
