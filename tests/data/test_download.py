import functools
import hashlib
import http.server
import threading

import pytest

from vijax.data.read import read
from vijax.data.reading.download import fetch

TEXT = '{"text": "apple plum"}\n{"text": "pear plum"}\n'


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder, and the address it is served at; the cache is elsewhere."""
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(TEXT)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_corpus_by_url(served):
    _, address = served
    corpus = read(f"{address}/corpus.jsonl?download=1", sha256=sha256(TEXT))
    assert corpus.vocabulary == ("apple", "pear", "plum")


def test_second_read_needs_no_server(served):
    folder, address = served
    path = fetch(f"{address}/corpus.jsonl")
    (folder / "corpus.jsonl").unlink()
    assert fetch(f"{address}/corpus.jsonl") == path
    assert path.read_text() == TEXT


def test_hash_that_was_given_is_checked(served):
    _, address = served
    with pytest.raises(ValueError, match=f"expected a file with SHA-256 {'0' * 64}, got another file.*right sha256="):
        fetch(f"{address}/corpus.jsonl", sha256="0" * 64)


def test_hash_of_the_first_download_is_checked_ever_after(served):
    folder, address = served
    path = fetch(f"{address}/corpus.jsonl")
    path.unlink()
    (folder / "corpus.jsonl").write_text(TEXT.replace("apple", "spam"))
    with pytest.raises(
        ValueError, match=f"expected a file with SHA-256 {sha256(TEXT)}.*if the new file is to be trusted"
    ):
        fetch(f"{address}/corpus.jsonl")
    path.with_name(f"{path.name}.sha256").unlink()
    assert "spam" in fetch(f"{address}/corpus.jsonl").read_text()


def test_damaged_local_copy_is_fetched_again(served):
    _, address = served
    path = fetch(f"{address}/corpus.jsonl")
    path.write_text("damaged")
    assert fetch(f"{address}/corpus.jsonl").read_text() == TEXT


def test_missing_file_and_missing_server(served):
    _, address = served
    with pytest.raises(ValueError, match=r"nowhere\.csv: expected a file to download, got 404"):
        fetch(f"{address}/nowhere.csv")
    with pytest.raises(ValueError, match="expected a file to download"):
        fetch("http://127.0.0.1:1/corpus.jsonl")


def test_two_addresses_never_share_a_copy(served):
    folder, address = served
    (folder / "sub").mkdir()
    (folder / "sub" / "corpus.jsonl").write_text('{"text": "other"}')
    assert fetch(f"{address}/corpus.jsonl") != fetch(f"{address}/sub/corpus.jsonl")
