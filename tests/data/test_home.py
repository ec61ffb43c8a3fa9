"""Paths that begin with "~", also texts that name no user, such as formulas in the wrong place."""

from pathlib import Path

import pytest

import vijax as vi
from vijax.files import local_path

READERS = {
    "load": vi.load,
    "read": vi.data.read,
    "glmm": lambda source: vi.glmm("y ~ x", source),
    "stm": lambda source: vi.stm(3, [[0, 1]], source, "~ x"),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_text_that_names_no_user_is_a_path_like_any_other(reader):
    with pytest.raises(ValueError, match=r"^~ x: "):
        READERS[reader]("~ x")


def test_a_tilde_is_the_home_folder():
    assert local_path("~/a.csv") == Path.home() / "a.csv"
    assert local_path("a/~b") == Path("a/~b")
