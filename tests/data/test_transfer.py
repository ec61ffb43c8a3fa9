"""Downloads that go wrong: what is said, what is kept, and that the next try goes on from there."""

import hashlib
import http.server
import itertools
import threading
import time

import pytest

from vijax.data.reading.checks import DataError
from vijax.data.reading.download import fetch, local_name
from vijax.data.reading.temporary import locked
from vijax.data.reading.transfer import Limits

BODY = bytes(range(256)) * 1024  # 256 kB
QUICK = Limits(num_bytes=1e6, seconds=20.0, stall_seconds=0.5)


class Server(http.server.ThreadingHTTPServer):
    """Answers each request by the next of `answers`, and keeps what was asked."""

    daemon_threads = True

    def __init__(self):
        self.answers, self.asked = [], []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(dict(self.headers))
        self.server.answers.pop(0)(self)

    def log_message(self, *args):
        pass


def whole(body=BODY, upto=None, etag='"one"', length=True):
    """The file, from the byte that was asked for if it is still `etag`; the connection ends at byte `upto`."""

    def answer(handler):
        wanted = handler.headers.get("Range")
        same = wanted is not None and handler.headers.get("If-Range") == etag
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if same else 0
        handler.send_response(206 if same else 200)
        if same:
            handler.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if length:
            handler.send_header("Content-Length", str(len(body) - start))
        handler.send_header("Accept-Ranges", "bytes")
        handler.send_header("ETag", etag)
        handler.end_headers()
        handler.wfile.write(body[start:upto])

    return answer


def redirect(target):
    def answer(handler):
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    return answer


def endless(pause, piece):
    """A body that never ends, in bits."""

    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in itertools.count():
            try:
                handler.wfile.write(piece)
            except OSError:
                return
            time.sleep(pause)

    return answer


def stalls(after):
    def answer(handler):
        whole(upto=after)(handler)
        handler.wfile.flush()
        time.sleep(1.5)

    return answer


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def get(server, tmp_path):
    def get(*answers, limits=QUICK, sha256=None, name="x.npy"):
        server.answers[:] = answers
        return fetch(f"http://127.0.0.1:{server.server_port}/{name}", sha256, tmp_path, limits)

    return get


def test_a_broken_download_goes_on_where_it_broke_off(get, server, tmp_path):
    with pytest.raises(DataError, match=r"expected a whole file, got 0\.1 MB of 0\.262 MB.*goes on from there"):
        get(whole(upto=100_000))
    assert get(whole()).read_bytes() == BODY
    assert (server.asked[1]["Range"], server.asked[1]["If-Range"]) == ("bytes=100000-", '"one"')
    left = sorted(path.name.partition("-")[2] for path in (tmp_path / "downloads").iterdir())
    assert left == ["x.npy", "x.npy.lock", "x.npy.sha256"]


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(get):
    other = BODY[::-1]
    with pytest.raises(DataError, match="a whole file"):
        get(whole(upto=100_000))
    assert get(whole(other, etag='"two"')).read_bytes() == other


def test_halves_that_do_not_belong_together_are_fetched_anew(get):
    """A server that says the file is the same when it is not."""
    other = BODY[::-1]
    with pytest.raises(DataError, match="a whole file"):
        get(whole(upto=100_000))
    assert get(whole(other), whole(other), sha256=hashlib.sha256(other).hexdigest()).read_bytes() == other


def test_a_wrong_checksum_is_told_with_both_and_leaves_nothing(get, tmp_path):
    got = hashlib.sha256(BODY).hexdigest()
    with pytest.raises(DataError, match=rf"SHA-256 {'0' * 64}, got another file, with SHA-256 {got}.*right sha256="):
        get(whole(), sha256="0" * 64)
    assert [path.suffix for path in (tmp_path / "downloads").iterdir()] == [".lock"]
    with pytest.raises(DataError, match="sha256: expected 64 hexadecimal digits, got 'abc'"):
        get(whole(), sha256="abc")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirections_elsewhere_are_not_followed_and_said(get, target):
    with pytest.raises(DataError, match=rf"got 302 .*Redirection to url '{target}' is not allowed.*yourself"):
        get(redirect(target))


def test_redirections_to_http_are_followed(get):
    assert get(redirect("/elsewhere"), whole()).read_bytes() == BODY


def test_a_stall_ends_and_what_has_come_is_kept(get):
    with pytest.raises(DataError, match=r"got nothing for 0\.5 seconds, after 0\.1 MB.*goes on from there"):
        get(stalls(100_000))
    assert get(whole()).read_bytes() == BODY


def test_a_drip_ends(get):
    limits = Limits(num_bytes=1e6, seconds=0.5, stall_seconds=5.0)
    with pytest.raises(DataError, match=r"a file within 0\.00833333 minutes, got .* VIJAX_DOWNLOAD_MINUTES"):
        get(endless(0.02, b"x"), limits=limits)


def test_an_endless_body_ends_and_leaves_nothing(get, tmp_path):
    with pytest.raises(DataError, match=r"a file of at most 1 MB, got 1(\.0\d)? MB or more.*VIJAX_DOWNLOAD_GB"):
        get(endless(0.0, b"x" * 50_000))
    assert [path.suffix for path in (tmp_path / "downloads").iterdir()] == [".lock"]


def test_a_file_announced_as_too_large_is_not_begun(get):
    with pytest.raises(DataError, match=r"at most 0\.1 MB, got 0\.262 MB or more"):
        get(whole(), limits=Limits(num_bytes=1e5))


def test_limits_are_set_by_the_environment(get, monkeypatch):
    monkeypatch.setenv("VIJAX_DOWNLOAD_GB", "0.0001")
    with pytest.raises(DataError, match=r"at most 0\.1 MB"):
        get(whole(), limits=None)
    monkeypatch.setenv("VIJAX_DOWNLOAD_GB", "much")
    with pytest.raises(DataError, match="VIJAX_DOWNLOAD_GB: expected a number above 0, got 'much'"):
        get(whole(), limits=None)


def test_long_and_strange_names(get):
    assert get(whole(), name=f"{'a' * 400}.csv").suffix == ".csv"
    assert "/" not in local_name("http://h/a%2F..%2F%00b%0A.csv")
    assert local_name("http://h/" + "a" * 400 + "/docword.x.txt.gz").endswith("-docword.x.txt.gz")
    for url in ("http://[::1", "http://a b/x.csv", "http://127.0.0.1:99999/x.csv", "http:///x.csv"):
        with pytest.raises(DataError, match="expected "):
            fetch(url)


def test_who_waited_reads_what_was_recorded_meanwhile(get, server, tmp_path):
    there = get(whole())
    record = there.with_name(f"{there.name}.sha256")
    written, found = record.read_text(), []
    record.write_text("")  # as a process leaves it that has just begun to write
    with locked(there.with_name(f"{there.name}.lock")):
        waits = threading.Thread(target=lambda: found.append(get()))
        waits.start()
        time.sleep(0.2)
        record.write_text(written)
    waits.join(10)
    assert found == [there]
    assert len(server.asked) == 1


def test_an_empty_record_is_none(get, server):
    there = get(whole())
    record = there.with_name(f"{there.name}.sha256")
    written = record.read_text()
    record.write_text("")
    assert get() == there
    assert len(server.asked) == 1
    assert record.read_text() == written


def test_two_at_once_fetch_it_once(get, server):
    found = []
    server.answers[:] = [whole()]
    url = f"http://127.0.0.1:{server.server_port}/x.npy"
    folder = get(whole(), name="other.npy").parent.parent
    server.answers[:] = [whole()]
    threads = [threading.Thread(target=lambda: found.append(fetch(url, None, folder, QUICK))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [path.read_bytes() == BODY for path in found] == [True] * 3
    assert len(server.asked) == 2
