import threading

import pytest

from vijax.data.prefetch import prefetch


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("vijax-prefetch")]


@pytest.mark.parametrize("size", [1, 2, 50])
def test_same_items_in_order(size):
    assert list(prefetch(range(20), size)) == list(range(20))
    assert not threads()


def test_exception_comes_where_the_item_would_have():
    def items():
        yield 1
        yield 2
        raise OSError("disk")

    stream = prefetch(items())
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(OSError, match="disk"):
        next(stream)
    assert not threads()


def test_closing_ends_the_thread():
    def forever():
        n = 0
        while True:
            yield n
            n += 1

    stream = prefetch(forever(), size=3)
    assert next(stream) == 0
    assert len(threads()) == 1
    stream.close()
    assert not threads()


def test_leaving_by_an_interrupt_ends_the_thread():
    def consume():
        stream = prefetch(iter(int, 1))
        try:
            for _ in stream:
                raise KeyboardInterrupt
        finally:
            stream.close()

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert not threads()


def test_items_are_made_ahead():
    made, fourth = [], threading.Event()

    def items():
        for n in range(5):
            made.append(n)
            if n == 3:
                fourth.set()
            yield n

    stream = prefetch(items(), size=2)
    next(stream)
    assert fourth.wait(timeout=300)  # on a busy machine the thread may have to wait for its turn
    assert len(made) == 4  # one in use, two waiting, one in the thread's hand
    stream.close()
