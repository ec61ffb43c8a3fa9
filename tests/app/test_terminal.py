"""What the program says, and what it does not: versions, pipes that close, wording, data given as a
configuration."""

import itertools
import os
import re
import subprocess
import sys
import time

import pytest

import vijax
from vijax.app.cli import main
from vijax.app.plan.wording import to_command_line_terms
from vijax.app.settings.banners import drop_banners


@pytest.mark.parametrize("arguments", [["--version"], ["version"]])
def test_the_version(arguments, capsys):
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"vijax {vijax.__version__}\n"


@pytest.mark.parametrize("command", ["settings"])
def test_a_reader_who_goes_away_is_no_error(command):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "vijax.app.cli", command],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.jsonl.gz", "texts", "counts.npz"])
def test_data_given_as_the_configuration_are_sent_where_they_belong(name, tmp_path, capsys):
    path = tmp_path / name
    path.mkdir() if "." not in name else path.write_text("id,text\n")
    assert main(["fit", str(path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"vijax: {path} is ")
    for command in ("fit lda", "fit mixture", "init lda"):
        assert f"vijax {command} --data {path}" in message
    assert message.count("\n") == 1


TABLE = [
    ("pass column=...; known: 'body'", "--set data.column=COLUMN; known: 'body'"),
    ("rename the file, or pass format=.", "rename the file, or --set data.format=FORMAT."),
    ("pass batch_size=59.", "--set fit.batch_size=59."),
    (
        "pass encoding='cp1252' if that reads well.",
        "--set data.encoding=cp1252 if that reads well.",
    ),
    ("check the path; to pass the texts themselves, pass a list of them.", "check the path."),
    ("pass integers.", "give integers."),
    (
        "pass longer documents.",
        "read longer documents, or with vijax fit hold none out: --set data.held_out=0.",
    ),
    ("pass smoothing=0.", "give smoothing=0."),
]


@pytest.mark.parametrize(("python", "shell"), TABLE)
def test_remedies_are_in_the_words_of_the_command_line(python, shell):
    start = "--set column=x: pass column=... stays. To mend it: "
    assert to_command_line_terms(start + python) == start + shell


def test_an_option_of_the_command_comes_before_a_setting():
    said = to_command_line_terms("none. To mend it: pass column=...", ["column"])
    assert said == "none. To mend it: --column COLUMN"


def test_a_wrong_column_at_the_command_line(tmp_path, capsys):
    (tmp_path / "reviews.csv").write_text("id,body\n1,good\n2,bad\n")
    (tmp_path / "lda.toml").write_text('[model]\nname = "lda"\n')
    assert main(["fit", str(tmp_path / "lda.toml"), "--data", str(tmp_path / "reviews.csv")]) == 2
    message = capsys.readouterr().err
    assert "--set data.column=" in message
    assert "pass column" not in message


# --- what XLA prints ------------------------------------------------------------------------------
STARS = b"********************************"
ALARMS = [
    [
        b"2026-01-01 00:00:00.1: E external/xla/xla/service/slow_operation_alarm.cc:73] ",
        STARS,
        b"[Compiling module jit_run_chunk] Very slow compile? If you want to file a bug, run with "
        b"envvar "
        b"XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.",
        STARS,
    ],
    [
        b"2026-01-01 00:02:09.1: E external/xla/xla/service/slow_operation_alarm.cc:140] The "
        b"operation took 2m9.8s",
        b"",
        STARS,
        b"[Compiling module jit_run_chunk] Very slow compile? If you want to file a bug, run with "
        b"envvar "
        b"XLA_FLAGS=--xla_dump_to=/tmp/foo and attach the results.",
        STARS,
    ],
    [
        b"2026-01-01 00:00:00.1: E external/xla/xla/service/slow_operation_alarm.cc:73] Constant "
        b"folding an "
        b"instruction is taking > 1s:",
        b"",
        b"  %pad.11 = s32[5,5000,1000]{2,1,0} pad(%a, %b), padding=0_0 (displaying the full "
        b"instruction incurs a "
        b"runtime overhead. Raise your logging level to 4 or above).",
        b"",
        b"This isn't necessarily a bug; constant-folding is inherently a trade-off between "
        b"compilation time and speed "
        b"at runtime. XLA has some guards that attempt to keep constant folding from taking too "
        b"long, but "
        b"fundamentally you'll always be able to come up with an input program that takes a long "
        b"time.",
        b"",
        b"If you'd like to file a bug, run with envvar XLA_FLAGS=--xla_dump_to=/tmp/foo and "
        b"attach the results.",
    ],
]


@pytest.mark.parametrize("alarm", ALARMS)
def test_banners_are_left_out_and_errors_stay(alarm):
    error = b"2026-01-01 00:00:01.1: E external/xla/xla/pjrt/client.cc:5] out of memory"
    lines = [b"before", *alarm, error, b"", b"  after"]
    assert list(drop_banners(lines)) == [b"before", error, b"", b"  after"]


NATIVE = """
import os, sys
from vijax.app.settings.banners import filter_stderr
with filter_stderr():
    os.write(2, {banner!r})
    os.write(2, b"native error\\n")
    print("python", file=sys.stderr)
    {then}
"""


@pytest.mark.parametrize(("then", "code"), [("pass", 0), ("os.abort()", -6)])
def test_only_banners_are_kept_off_the_screen_even_in_a_crash(then, code):
    program = NATIVE.format(banner=b"\n".join(ALARMS[0]) + b"\n", then=then)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code
    assert sorted(done.stderr.splitlines()) == ["native error", "python"]


# --- silence --------------------------------------------------------------------------------------
def test_a_silence_is_explained_and_no_more_than_once(capsys):
    from vijax.app.settings.progress import COMPILING, Printer

    printer = Printer()
    with printer.announcing(after_s=0.05):
        time.sleep(0.3)
    assert capsys.readouterr().err == COMPILING + "\n"
    with printer.announcing(after_s=5.0):
        pass
    assert capsys.readouterr().err == ""


# --- the map of topics ----------------------------------------------------------------------------
def test_topics_that_lie_close_together_are_all_numbered_on_the_map():
    from vijax.app.drawing.bubbles import Bubble, bubble_map

    names = ["software use code", "use software file", "com red html"]
    close = [
        Bubble(0.02 * i, 0.01 * i, 1.0 - 0.1 * i, str(i), name, "#", name)
        for i, name in enumerate(names)
    ]
    shown = bubble_map(close)
    places = re.findall(r'class="name" x="([\d.]+)" y="([\d.]+)">(\d)<', shown)
    assert [number for *_, number in places] == ["0", "1", "2"]
    for (x, y, _), (other_x, other_y, _) in itertools.combinations(places, 2):
        assert abs(float(x) - float(other_x)) > 9 or abs(float(y) - float(other_y)) > 13
    assert all(f"<title>{name}</title>" in shown for name in names)
