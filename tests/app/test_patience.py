"""A line before a silence, and none where there is no silence."""

import threading

import pytest

from vijax.app.progress import announced


def test_only_what_takes_long_is_announced():
    said, told = [], threading.Event()

    def say(text):
        said.append(text)
        told.set()

    with announced(say, "slow ...", after_s=0.01):
        assert told.wait(10)
    with announced(say, "quick ...", after_s=60):
        pass
    with pytest.raises(KeyError), announced(say, "failing ...", after_s=60):
        raise KeyError
    assert said == ["slow ..."]
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread.is_alive()]
