"""Names that nobody can search, stock locals, ternaries and long lines become fewer, room by room,
and never more."""

import functools
import json

import pytest

from tests.house import style

counts_by_room = functools.cache(style.counts_by_room)
MAY_ONLY_FALL = [kind for kind in style.KINDS if kind not in ("names", "assignments")]


@pytest.mark.parametrize("kind", MAY_ONLY_FALL)
def test_no_room_has_more_than_was_written_down(kind):
    written, counts = json.loads(style.WRITTEN.read_text()), counts_by_room()
    more = {
        room: (counts[room][kind], written.get(room, {}).get(kind, 0))
        for room in counts
        if counts[room][kind] > written.get(room, {}).get(kind, 0)
    }
    assert not more, (
        f"More {kind} ({style.KINDS[kind]}) than tests/house/style.json allows, by room (now, "
        f"allowed): {more}. Name "
        "what a thing is. Where a room has fewer: python -m tests.house.style writes the new "
        "counts."
    )


def test_what_is_counted():
    source = "def settled(x):\n    found = 1 if x else 2\n    rows = found\n    return rows\n"
    counts = style.counts_of_file(source + "# " + "-" * 100 + "\n")
    assert dict(counts) == {
        "names": 1,
        "participle names": 1,
        "preposition names": 0,
        "assignments": 2,
        "stock locals": 1,
        "ternaries": 1,
        "long lines": 1,
    }
