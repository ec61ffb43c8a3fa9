"""Tables and figures of an earlier sitting go when the pages are written again; files of others
stay."""

import json

from vijax.app.report.stale import FILE, remove_stale


def put(folder, *names):
    folder.mkdir(exist_ok=True, parents=True)
    for name in names:
        (folder / name).write_text("x")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_the_last_writing_left_is_removed(tmp_path):
    run = tmp_path / "run"
    put(run / "tables", "8_topics_of_8_in_use.csv", "sizes.csv", "mine.csv")
    put(run / "figures", "curves.png")
    remove_stale(
        run, {"tables": ["8_topics_of_8_in_use.csv", "sizes.csv"], "figures": ["curves.png"]}
    )
    assert names(run / "tables") == ["8_topics_of_8_in_use.csv", "mine.csv", "sizes.csv"]
    put(run / "tables", "4_topics_of_8_in_use.csv")
    remove_stale(
        run, {"tables": ["4_topics_of_8_in_use.csv", "sizes.csv"], "figures": ["curves.png"]}
    )
    assert names(run / "tables") == ["4_topics_of_8_in_use.csv", "mine.csv", "sizes.csv"]
    assert names(run / "figures") == ["curves.png"]


def test_a_list_of_somebody_else_removes_nothing_outside(tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    put(other, "a.csv", "b.png")
    put(run / "tables", "c.csv", ".hidden.csv")
    put(run, "posterior.csv")
    (run / "figures").symlink_to(other)
    said = [
        "../posterior.csv",
        str(other / "a.csv"),
        "../../other/a.csv",
        ".hidden.csv",
        "c.txt",
        7,
        None,
        "sub/c.csv",
    ]
    (run / FILE).write_text(
        json.dumps({"tables": said, "figures": ["b.png"], "..": ["posterior.csv"], "x": 3})
    )
    remove_stale(run, {"tables": [], "figures": []})
    assert names(other) == ["a.csv", "b.png"]
    assert names(run / "tables") == [".hidden.csv", "c.csv"]
    assert (run / "posterior.csv").exists()
    (run / FILE).write_text("{damaged")
    remove_stale(run, {"tables": ["c.csv"]})
    assert json.loads((run / FILE).read_text()) == {"tables": ["c.csv"]}
