"""Progress: what it says, when it says it, and what it costs."""

import io
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from vijax.app.settings.progress import Printer, announce_if_slow, elbo_per_datum

TRACE = {
    "num_groups": np.full(2, 50.0),
    "num_words": np.array([500.0, 1000.0]),
    "elbo": np.array([-90_000.0, -80_000.0]),
    "local_elbo": np.array([-4000.0, -8000.0]),
    "penalty": np.full(2, 1000.0),
}


def seen(step, stopping=False, **changes):
    fields = {
        "step": step,
        "num_steps": 100,
        "steps_per_epoch": 20,
        "trace": TRACE,
        "gain": None,
        "num_groups_seen": 50.0 * step,
        "num_words_seen": 500.0 * step,
        "num_words": 10_000,
        "num_groups": 1000,
        "stopping": stopping,
        "data_place": "",
    }
    return SimpleNamespace(**fields | changes)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_the_elbo_is_over_the_words_of_each_batch_or_the_groups_of_the_data():
    """-8 a word in batches of 500 and of 1,000 words, and a penalty of 1000 for the 10,000 words of
    the whole set."""
    np.testing.assert_allclose(elbo_per_datum(seen(2)), [-8.1, -8.1])
    expected = TRACE["elbo"] / 1000
    np.testing.assert_allclose(elbo_per_datum(seen(2, num_words=None)), expected)
    without = {name: values for name, values in TRACE.items() if name != "num_words"}
    np.testing.assert_allclose(elbo_per_datum(seen(2, trace=without)), expected)


def test_a_log_gets_lines_at_a_fixed_cadence_and_always_the_last():
    clock, stream = Clock(), io.StringIO()
    score = SimpleNamespace(mean=-7.5, standard_error=0.02)
    printer = Printer(every_s=5.0, score=lambda: score, stream=stream, clock=clock)
    for step in range(2, 101, 2):
        clock.now += 0.5
        printer(seen(step, stopping=step == 100))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1 + 4 + 1  # the first, each five seconds, the last
    # ten calls in five seconds: 20 steps of 50 documents; 78 steps are left at four steps a second
    expected = (
        "step     22/100   pass 1.1   200 docs/s   ELBO/word -8.100   held-out -7.500 ± 0.020   "
        "to go 0:00:20"
    )
    assert lines[1] == expected
    assert "to go" not in lines[-1]
    assert lines[-1].startswith("step    100/100")


def test_a_terminal_gets_one_bar():
    pytest.importorskip("tqdm")
    clock, stream = Clock(), io.StringIO()
    stream.isatty = lambda: True
    printer = Printer(stream=stream, clock=clock)
    for step in (2, 50, 100):
        clock.now += 5.0
        printer(seen(step, stopping=step == 100))
    text = stream.getvalue()
    assert "100%" in text
    assert "ELBO/word -8.100" in text
    assert text.count("\n") == 1


def test_it_costs_less_than_two_per_cent_of_the_time():
    """Chunks of 50 ms, a second of CPU at the default cadence: at most 20 calls and a report; we
    allow 20 ms."""
    printer = Printer(stream=io.StringIO())
    printer(seen(2))
    began = time.process_time()
    for step in range(20):
        printer(seen(4 + step))
    printer(seen(100, stopping=True))
    assert time.process_time() - began < 0.02


@pytest.mark.parametrize(
    ("gain", "words"), [(3e-4, "   still to gain 3.0e-04"), (np.inf, ""), (None, "")]
)
def test_what_is_still_to_gain_is_shown_once_it_is_known(gain, words):
    stream = io.StringIO()
    Printer(stream=stream)(seen(2, gain=gain))
    assert ("ELBO/word -8.100" + words) in stream.getvalue()
    assert ("to gain" in stream.getvalue()) == bool(words)


def test_only_what_takes_long_is_announced():
    said, told = [], threading.Event()

    def say(text):
        said.append(text)
        told.set()

    with announce_if_slow(say, "slow ...", after_s=0.01):
        assert told.wait(10)
    with announce_if_slow(say, "quick ...", after_s=60):
        pass
    with pytest.raises(KeyError), announce_if_slow(say, "failing ...", after_s=60):
        raise KeyError
    assert said == ["slow ..."]
    assert not [
        thread
        for thread in threading.enumerate()
        if isinstance(thread, threading.Timer) and thread.is_alive()
    ]
