"""Commands that are printed can be pasted, though a folder's name has blanks."""

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("tyro")

from vijax.app.cli import main
from vijax.app.settings.quoting import quote

APP = Path(__file__).parents[2] / "vijax" / "app"
BARE = re.compile(r"vijax [a-z]+\b[^\"]*?\{(?:\w+\.)?(?:folder|path|out|parent|config|data)\}")
QUOTED_ABOVE = {"report/pages.py", "folder/run_folder.py", "settings/toml_source.py"}


@pytest.mark.parametrize("path", ["a b/run", "it's", "a;b", "$HOME", "plain/run-1"])
def test_a_shell_reads_one_word(path):
    assert shlex.split(f"vijax resume {quote(Path(path))}") == ["vijax", "resume", path]


def test_no_command_has_a_bare_path():
    """Where the same function quotes it a few lines above, the name is that of the quoted path."""
    bare = {
        (str(path.relative_to(APP)), match.group())
        for path in APP.rglob("*.py")
        for match in BARE.finditer(path.read_text())
        if str(path.relative_to(APP)) not in QUOTED_ABOVE
    }
    assert bare == set()


def test_remedies_name_a_folder_with_blanks(tmp_path, capsys):
    folder = tmp_path / "my runs" / "first run"
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    table = tmp_path / "rows.csv"
    table.write_text("x\n1\n2\n")
    assert main(["fit", "mixture", "--data", str(table), "--out", str(folder)]) == 2
    command = capsys.readouterr().err.partition("go on with it: ")[2]
    assert shlex.split(command)[:3] == ["vijax", "resume", str(folder)]
    data = tmp_path / "my data"
    data.mkdir()
    assert main(["fit", str(data)]) == 2
    assert f"vijax fit lda --data '{data}' (texts)" in capsys.readouterr().err
