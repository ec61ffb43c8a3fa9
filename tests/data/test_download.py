"""Files by URL: fetched once and checked ever after; what is said when a download goes wrong."""

import hashlib
import http.server
import itertools
import threading
import time

import pytest

pytest.importorskip("pooch")

from tests.naming import naming
from vijax.data.read import read
from vijax.data.reading.checks import DataError
from vijax.data.reading.download import Limits, fetch, local_name

TEXT = b'{"text": "apple plum"}\n{"text": "pear plum"}\n'
BODY = bytes(range(256)) * 1024  # 256 kB
QUICK = Limits(num_bytes=1e6, seconds=20.0, stall_seconds=0.5)


class Server(http.server.ThreadingHTTPServer):
    """Answers each request by the next of `answers`, and counts what was asked."""

    daemon_threads = True

    def __init__(self):
        self.answers, self.asked = [], 0
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        if self.server.answers:
            self.server.answers.pop(0)(self)
        else:
            self.send_error(404)

    def log_message(self, *args):
        pass


def whole(body=BODY, upto=None):
    """The file; the connection ends at byte `upto`."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[:upto])

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


def sha256(body):
    return hashlib.sha256(body).hexdigest()


def left(tmp_path):
    return sorted(path.name.partition("-")[2] for path in (tmp_path / "downloads").iterdir())


def test_corpus_by_url(server, tmp_path, monkeypatch):
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path))
    server.answers[:] = [whole(TEXT)]
    corpus = read(
        f"http://127.0.0.1:{server.server_port}/corpus.jsonl?download=1", sha256=sha256(TEXT)
    )
    assert corpus.vocabulary == ("apple", "pear", "plum")


def test_second_read_needs_no_server(get, server, tmp_path):
    path = get(whole())
    assert get() == path
    assert path.read_bytes() == BODY
    assert server.asked == 1
    assert left(tmp_path) == ["x.npy", "x.npy.sha256"]


def test_nothing_of_the_library_that_fetches_is_printed(get, capsys):
    get(whole())
    assert capsys.readouterr() == ("", "")


def test_a_wrong_checksum_is_told_with_both_and_leaves_nothing(get, tmp_path):
    expected = rf"SHA-256 {'0' * 64}, got another \(.*{sha256(BODY)}.*pass the right sha256="
    with pytest.raises(DataError, match=expected):
        get(whole(), sha256="0" * 64)
    assert left(tmp_path) == []
    with pytest.raises(DataError, match=naming("sha256:", "64", "'abc'")):
        get(whole(), sha256="abc")


def test_hash_of_the_first_download_is_checked_ever_after(get):
    path = get(whole(TEXT))
    path.unlink()
    other = TEXT.replace(b"apple", b"spam")
    with pytest.raises(
        DataError,
        match=f"expected a file with SHA-256 {sha256(TEXT)}.*if the new file is to be trusted",
    ):
        get(whole(other))
    path.with_name(f"{path.name}.sha256").unlink()
    assert get(whole(other)).read_bytes() == other


def test_damaged_local_copy_is_fetched_again(get):
    path = get(whole())
    path.write_bytes(b"damaged")
    assert get(whole()).read_bytes() == BODY


def test_an_empty_record_is_none(get, server):
    there = get(whole())
    record = there.with_name(f"{there.name}.sha256")
    written = record.read_text()
    record.write_text("")
    assert get() == there
    assert server.asked == 1
    assert record.read_text() == written


def test_missing_file_and_missing_server(get):
    with pytest.raises(DataError, match=naming("x.npy:", "404")):
        get()
    with pytest.raises(DataError, match="expected a file to download"):
        fetch("http://127.0.0.1:1/corpus.jsonl")


def test_a_body_that_is_cut_short_is_no_file(get, tmp_path):
    with pytest.raises(
        DataError, match=r"expected a file to download, got .*IncompleteRead.*network"
    ):
        get(whole(upto=100_000))
    assert left(tmp_path) == []
    assert get(whole()).read_bytes() == BODY


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirections_elsewhere_are_not_followed_and_said(get, target):
    with pytest.raises(
        DataError, match=f"No connection adapters were found for '{target}'.*yourself"
    ):
        get(redirect(target))


def test_redirections_to_http_are_followed(get):
    assert get(redirect("/elsewhere"), whole()).read_bytes() == BODY


def test_a_stall_ends(get):
    with pytest.raises(DataError, match=r"got .*Read timed out.*network"):
        get(stalls(100_000))


def test_a_drip_ends(get):
    limits = Limits(num_bytes=1e6, seconds=0.5, stall_seconds=5.0)
    with pytest.raises(DataError, match=naming("0.00833333", "VIJAX_DOWNLOAD_MINUTES")):
        get(endless(0.02, b"x" * 1000), limits=limits)


def test_an_endless_body_ends_and_leaves_nothing(get, tmp_path):
    with pytest.raises(DataError, match=naming("1 MB", "VIJAX_DOWNLOAD_GB")):
        get(endless(0.0, b"x" * 50_000))
    assert left(tmp_path) == []


def test_a_file_announced_as_too_large_ends_at_once(get):
    with pytest.raises(DataError, match=r"at most 0\.1 MB, got 0\.262 MB or more"):
        get(whole(), limits=Limits(num_bytes=1e5))


def test_limits_are_set_by_the_environment(get, monkeypatch):
    monkeypatch.setenv("VIJAX_DOWNLOAD_GB", "0.0001")
    with pytest.raises(DataError, match=r"at most 0\.1 MB"):
        get(whole(), limits=None)
    monkeypatch.setenv("VIJAX_DOWNLOAD_GB", "much")
    with pytest.raises(DataError, match=naming("VIJAX_DOWNLOAD_GB:", "0", "'much'")):
        get(whole(), limits=None)


def test_long_and_strange_names(get):
    assert get(whole(), name=f"{'a' * 400}.csv").suffix == ".csv"
    assert "/" not in local_name("http://h/a%2F..%2F%00b%0A.csv")
    assert local_name("http://h/" + "a" * 400 + "/docword.x.txt.gz").endswith("-docword.x.txt.gz")
    assert local_name("http://h/x.csv") != local_name("http://h/sub/x.csv")
    for url in ("http://[::1", "http://a b/x.csv", "http://127.0.0.1:99999/x.csv", "http:///x.csv"):
        with pytest.raises(DataError, match="expected "):
            fetch(url)


def test_two_at_once_end_with_one_whole_file(get, server, tmp_path):
    server.answers[:] = [whole()] * 3
    url, found = f"http://127.0.0.1:{server.server_port}/x.npy", []
    threads = [
        threading.Thread(target=lambda: found.append(fetch(url, None, tmp_path, QUICK)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [path.read_bytes() == BODY for path in found] == [True] * 3
    assert left(tmp_path) == ["x.npy", "x.npy.sha256"]
