"""Runs of `hpf` with tables of what is known of users and of items."""

import ast
import csv
import json
import shlex

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import check_names, naming
from vijax.app.cli import main
from vijax.app.sources.ratings import FEATURES


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two kinds of users and of items: users take items of their kind; ten users took nothing, two
    items are new."""
    folder, rng = tmp_path_factory.mktemp("ratings"), np.random.default_rng(0)
    kind = np.arange(110) % 2
    rates = np.where(kind[:, None] == np.arange(16) % 2, 1.0, 0.05)
    taken = rng.poisson(rates) * (np.arange(110) < 100)[:, None]
    write(
        folder / "ratings.csv",
        ["user", "item"],
        [[f"u{u:03}", f"i{i}"] for u, i in np.argwhere(taken)],
    )
    numbers = 30 + 10 * kind + rng.normal(size=110)
    # In another order than the data, with a column of text
    write(
        folder / "users.csv",
        ["sex", "age", "user"],
        [["F", numbers[u], f"u{u:03}"] for u in range(109, -1, -1)],
    )
    write(
        folder / "items.csv",
        ["item", "length"],
        [[f"i{i}" if i < 16 else f"new{i % 2}", i % 2] for i in range(18)],
    )
    return folder


def fit(folder, name, epochs, *more):
    tables = [
        f"data.user_features={folder / 'users.csv'}",
        f"data.item_features={folder / 'items.csv'}",
    ]
    settings = [
        "model.num_components=2",
        "evaluate_every=0",
        f"num_epochs={epochs}",
        *tables,
        *more,
    ]
    given = "--data", str(folder / "ratings.csv"), "--out", str(folder / name)
    return main(["fit", "hpf", *given, "--set", *settings])


@pytest.fixture(scope="module")
def run(folder):
    assert fit(folder, "run", 60) == 0
    return folder / "run"


def test_a_ranking_is_no_log_density_and_is_one_number(run):
    """NDCG is not in nats, on the page and in its figure; the table of hidden items has the number
    of the score."""
    ended = json.loads((run / "result.json").read_text())
    page = (run / "report.html").read_text()
    (table,) = (
        block for block in ended["blocks"] if block["title"] == "Hidden items that are found"
    )
    assert table["rows"][0][:2] == ["this model", pytest.approx(ended["score"][0], abs=1e-5)]
    held_out = page[page.index("Held-out score") :]
    assert "NDCG@16" in held_out[:400]
    assert "NDCG@16, higher is better; the band is one standard error. NDCG is 1 where" in page
    assert "nats per nats" not in page
    assert "2.72 times as probable" not in page


def test_users_who_took_nothing_and_items_that_nobody_took_are_recommended(run):
    rows = {row["user"]: row for row in read(run / "recommendations.csv")}
    assert len(rows) == 110
    for u in range(100, 110):
        best = [rows[f"u{u:03}"][f"item_{r}"] for r in range(1, 10)]
        assert (
            sum(int(name[-1]) % 2 == u % 2 for name in best) >= 7
        )  # nine are of this kind, nine of the other
        assert f"new{u % 2}" in best[:3]
    text = (run / "summary.txt").read_text()
    assert "What is known of users" in text
    assert "What is known of items" in text
    loaded = vi.load(run)
    assert loaded.fit.vocabulary == loaded.vocabulary
    weights = loaded.fit.state.hyper["user_weights"]
    assert weights.shape == (1, 2)  # text is no number
    assert np.ptp(weights) > 1


def test_a_run_that_goes_on_comes_to_the_same_end(folder, run, capsys):
    assert fit(folder, "parts", 20) == 0
    check_names(capsys.readouterr().err, "'sex'", "'F'", "2")
    settings = folder / "parts" / "config.toml"
    settings.write_text(settings.read_text().replace("num_epochs = 20", "num_epochs = 60"))
    assert main(["resume", str(folder / "parts")]) == 0
    one, other = (vi.load(folder / name).fit.state for name in ("run", "parts"))
    np.testing.assert_array_equal(one.hyper["feature_weights"], other.hyper["feature_weights"])
    np.testing.assert_array_equal(one.posterior["items"].shape, other.posterior["items"].shape)


def test_other_users_are_asked_about(folder, run, capsys):
    """Without the ratings of training; the table of users may have grown, that of items is kept."""
    moved = {
        name: (folder / name).read_text() for name in ("ratings.csv", "items.csv", "users.csv")
    }
    try:
        (folder / "ratings.csv").unlink()
        (folder / "items.csv").unlink()
        (folder / "users.csv").write_text(moved["users.csv"] + "M,30.0,anna\nM,40.0,otto\n")
        path = write(
            folder / "others.csv", ["user", "item", "count"], [["anna", "i0", 1], ["otto", "i1", 0]]
        )
        assert (
            main(["transform", str(run), "--data", path, "--out", str(folder / "found.csv")]) == 0
        )
        anna, otto = read(folder / "found.csv")
        assert (anna["user"], otto["user"]) == ("anna", "otto")
        assert "new0" in anna.values()
        assert "new1" in otto.values()
        assert "i0" not in anna.values()
        (folder / "users.csv").write_text(moved["users.csv"])
        capsys.readouterr()
        assert main(["transform", str(run), "--data", path, "--out", str(folder / "more.csv")]) == 2
        check_names(capsys.readouterr().err, "'anna'", "'otto'")
    finally:
        for name, text in moved.items():
            (folder / name).write_text(text)


def test_what_a_run_keeps_may_be_damaged(run):
    path = run / FEATURES
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100])
        with pytest.raises(
            ValueError, match=rf"{FEATURES}: damaged .*write it again: vijax resume"
        ):
            vi.load(run)
    finally:
        path.write_bytes(whole)


WRONG = {
    "unknown": (
        "user,age\nu000,3\n",
        "expected a row for each user of the data, got none for 'u001', 'u002'",
    ),
    "missing": ("user,age\nu000,3\nu001,\n", "a missing value in line 3 of column 'age' (1 such)"),
    "twice": (
        "user,age\nu000,3\nu001,4\nu000,5\n",
        "expected a row for each user, got 'u000' again in line 4",
    ),
    "no users": ("id,age\nu000,3\n", "expected the column user, got the columns id, age"),
    "text": ("user,age\nu000,old\n", "expected columns of numbers, got text in 'age'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tables_are_named(name, folder, capsys):
    text, message = WRONG[name]
    (folder / "wrong.csv").write_text(text)
    assert fit(folder, "none", 1, f"data.user_features={folder / 'wrong.csv'}") == 2
    assert message in capsys.readouterr().err
    assert not (folder / "none").exists()


def test_a_changed_table_is_noticed(folder, run, capsys):
    text = (folder / "items.csv").read_text()
    try:
        (folder / "items.csv").write_text(text.replace("i0,0", "i0,1"))
        assert main(["resume", str(run)]) == 2
        assert "the data are not those the run began with" in capsys.readouterr().err
    finally:
        (folder / "items.csv").write_text(text)
    assert json.loads((run / "data.json").read_text())["documents"] == 90


# --- which columns are what, and items that nobody took in training -------------------------------
def test_an_item_that_nobody_took_in_training_is_not_recommended_to_who_took_it(folder, run):
    path = write(
        folder / "took.csv", ["user", "item"], [["u100", "i0"], ["u100", "new0"], ["u101", "i1"]]
    )
    assert (
        main(["transform", str(run), "--data", path, "--out", str(folder / "took_found.csv")]) == 0
    )
    first, second = read(folder / "took_found.csv")
    assert first["taken"] == "2"
    assert "new0" not in first.values()
    assert "new1" in second.values()


NEWCOMERS = {"u100": ("new0", 1), "u101": ("i1", 0), "u102": ("i0", 2), "u103": ("seen nowhere", 0)}


def asked(folder, run, users):
    rows = [[user, *NEWCOMERS[user]] for user in users]
    path = write(folder / "asked.csv", ["user", "item", "count"], rows)
    return {row["user"]: row for row in zip_columns(vi.load(run).transform(path))}


def zip_columns(found):
    columns = found.columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(
    "users", [("u100",), ("u101",), ("u103",), ("u100", "u101"), ("u101", "u103")]
)
def test_a_user_without_an_item_of_training_gets_the_same_row_alone_as_among_others(
    users, folder, run
):
    among, alone = asked(folder, run, NEWCOMERS), asked(folder, run, users)
    for user in users:
        assert alone[user] == among[user]
    if "u100" in users:
        assert "new0" not in alone["u100"].values()
        assert "new1" in among["u101"].values()


def test_a_user_of_unknown_items_alone_is_refused_with_a_remedy_that_works(folder, run):
    loaded, items = vi.load(run), ["somewhere"]
    with pytest.raises(ValueError, match=naming("items:", "somewhere")):
        loaded.transform({"user": ["u100"], "item": items, "count": [1]})
    found = loaded.transform({"user": ["u100"], "item": items, "count": [0]})
    assert found["taken"] == [0]
    assert found.notes == (
        "1 of 1 users took none of the items: they are kept, and say nothing about the components.",
    )


def test_a_user_who_took_nothing_can_be_asked_about_alone_in_python():
    taken = np.random.default_rng(0).integers(0, 3, (40, 6))
    model = vi.models.hpf(2, 6)
    fit = vi.fit(vi.cavi(model), vi.data.read(taken), num_steps=5, key=jax.random.key(0))
    both = vi.models.recommend(fit, np.array([[0] * 6, [1, 0, 0, 2, 0, 0]]), 3)
    alone = vi.models.recommend(fit, np.zeros((1, 6), int), 3)
    np.testing.assert_allclose(alone.counts[0], both.counts[0], rtol=1e-6)
    np.testing.assert_array_equal(alone.items[0], both.items[0])
    np.testing.assert_array_equal(vi.models.recommend(fit, np.zeros(6, int), 3).items, alone.items)


def test_nobody_who_took_anything_is_no_training(folder, tmp_path, capsys):
    rows = [[f"u{i}", f"i{i % 3}", 0] for i in range(20)]
    given = [
        "--data",
        write(tmp_path / "nothing.csv", ["user", "item", "count"], rows),
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(["fit", "hpf", *given]) == 2
    check_names(capsys.readouterr().err, "nothing.csv:", "users")


@pytest.fixture
def table_of_users(folder):
    """The table of users, as a list of rows that a test may change; it is put back."""
    path = folder / "users.csv"
    text = path.read_text()
    yield path, read(path)
    path.write_text(text)


def test_the_table_of_users_is_read_by_the_names_of_its_columns(folder, run, table_of_users):
    path, rows = table_of_users
    before = asked(folder, run, NEWCOMERS)
    changed = [
        [row["age"], "", row["user"], row["sex"]] for row in rows if row["user"] in NEWCOMERS
    ]
    write(path, ["age", "shoe size", "user", "sex"], changed)
    assert asked(folder, run, NEWCOMERS) == before
    write(
        path, ["user", "age"], [[row["user"], row["age"]] for row in rows if row["user"] == "u101"]
    )
    assert asked(folder, run, ["u101"])["u101"] == before["u101"]
    write(path, ["user", "sex"], [[row["user"], row["sex"]] for row in rows])
    with pytest.raises(
        ValueError,
        match=naming("'age'", "'user'", "'sex'"),
    ):
        asked(folder, run, NEWCOMERS)


def test_messages_speak_of_users_and_items(folder, run, capsys):
    rows = [
        ["u100", "i0", 1],
        ["u101", "i1", 0],
        ["u102", "new0", 2],
        ["u102", "i2", 1],
        ["u102", "i4", 1],
    ]
    path = write(folder / "scored.csv", ["user", "item", "count"], rows)
    assert main(["evaluate", str(run), "--data", path]) == 0
    assert main(["transform", str(run), "--data", path]) == 0
    said = capsys.readouterr().err
    assert "1 of 3 users took none of the items" in said
    assert "2 of 5 counts are of items that the fit does not know: they are left out." in said
    assert not any(word in said for word in ("document", "token", "topic", "vocabulary"))
    with pytest.raises(
        ValueError, match="expected a part of 3 users that leaves some on both sides"
    ):
        vi.data.read(path).split(5)


@pytest.fixture(scope="module")
def movies(tmp_path_factory):
    """Stars by halves under the headers of MovieLens: each of two kinds of users likes one kind of
    films."""
    folder, rng = tmp_path_factory.mktemp("movies"), np.random.default_rng(0)
    rows = [
        [u, 100 + i, (4.5 if i % 2 == u % 2 else 2.5) + 0.5 * rng.integers(2), 1000 + u]
        for u in range(60)
        for i in rng.choice(20, 8, replace=False)
    ]
    write(folder / "ml.csv", ["userId", "movieId", "rating", "timestamp"], rows)
    write(folder / "who.csv", ["who", "what", "n"], [[u, i, 2] for u, i, *_ in rows])
    return folder


SHORT = ["num_components=2", "num_epochs=10", "evaluate_every=0"]


def test_ratings_are_not_guessed_about(movies, capsys):
    given = [
        "fit",
        "hpf",
        "--data",
        str(movies / "ml.csv"),
        "--out",
        str(movies / "run"),
        "--set",
        *SHORT,
    ]
    assert main(given) == 2
    said = capsys.readouterr().err
    check_names(said, "--set", "data.least", "4")
    assert "--set data.count=rating" in said
    assert main([*given, "data.count=rating"]) == 2
    assert (
        "expected whole counts, how often an item was taken, got 4.5 in line"
        in capsys.readouterr().err
    )
    assert main([*given, "data.least=4"]) == 0
    said = capsys.readouterr().err
    check_names(said, "'userId'", "'movieId'")
    check_names(said, "4", "'rating'")
    assert main(["transform", str(movies / "run"), "--data", str(movies / "who.csv")]) == 2
    check_names(capsys.readouterr().err, "'who'", "'what'", "'n'")
    write(movies / "few.csv", ["user", "item"], [["a", "100"]])
    assert main(["transform", str(movies / "run"), "--data", str(movies / "few.csv")]) == 2
    said = capsys.readouterr().err
    assert (
        "The table of training was read with least=4. To mend it: give a table with the columns "
        "of that one." in said
    )


def test_columns_of_other_names_are_named(movies, capsys):
    given = [
        "fit",
        "hpf",
        "--data",
        str(movies / "who.csv"),
        "--out",
        str(movies / "other"),
        "--set",
        *SHORT,
    ]
    assert main(given) == 2
    check_names(capsys.readouterr().err, "Name them:", "--set", "data.user", "COLUMN", "data.item")
    assert main([*given, "data.user=who", "data.item=what", "data.count=n"]) == 0
    assert "54 users, 20 items, taken 864 times, and 6 held out" in capsys.readouterr().err


def test_init_proposes_what_counts_as_taken(movies, capsys, monkeypatch):
    monkeypatch.chdir(movies)
    assert main(["init", "hpf", "--data", "ml.csv"]) == 0
    text = (movies / "ml_hpf.toml").read_text()
    assert "least = 4.0" in text
    check_names(text, "'rating'", "2.5")
    assert "data.column" not in text
    assert main(["init", "hpf", "--data", "who.csv", "--out", "who.toml"]) == 2
    assert "expected columns of users and of items" in capsys.readouterr().err


def test_the_page_of_rankings_speaks_of_no_nats(movies):
    run = movies / "page"
    given = [
        "fit",
        "hpf",
        "--data",
        str(movies / "ml.csv"),
        "--out",
        str(run),
        "--set",
        *SHORT,
        "data.least=4",
    ]
    assert main(given) == 0
    page, summary = (run / "report.html").read_text(), (run / "summary.txt").read_text()
    score = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["score"]
    assert f"<dd>{score:.3f} <small>± " in page
    assert "NDCG@20</small>" in page
    assert "Ranking of hidden items, NDCG@20, higher is better" in page
    assert "2.72" not in page
    assert page.count("nats") == 1  # of the bound
    (row,) = (line for line in summary.splitlines() if "this model" in line)
    assert float(row.split()[2]) == pytest.approx(score, abs=5e-4)  # what is hidden is the same


def test_a_model_of_texts_does_not_take_users_for_texts(movies, capsys):
    given = ["--data", str(movies / "ml.csv"), "--out", str(movies / "lda")]
    assert main(["fit", "lda", *given]) == 2
    said = capsys.readouterr().err
    check_names(said, "'userId'", "'movieId'", "'rating'", "'timestamp'")
    assert "vijax fit hpf" in said


@pytest.mark.parametrize("settings", [[], ["--set", "data.user=user", "data.item=item"]])
def test_json_lines_of_ratings_get_the_line_that_makes_a_table(tmp_path, capsys, settings):
    path = tmp_path / "o's $x.jsonl"
    path.write_text('{"user": "a", "item": "x"}\n{"user": "b", "item": "y"}\n')
    assert main(["fit", "hpf", "--data", str(path), *settings]) == 2
    error = capsys.readouterr().err
    check_names(error, "JSON", "'user'", "'item'")
    program = shlex.split(error.rpartition("python -c ")[2])[0]
    assert str(path) in ast.unparse(ast.parse(program))
