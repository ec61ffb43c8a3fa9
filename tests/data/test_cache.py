from pathlib import Path

import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.cache import cache_folder, cached_corpus


def test_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("VIJAX_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("VIJAX_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/vijax")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "vijax"


def test_corpus_is_built_once_per_key(tmp_path):
    built = []

    def build(folder):
        built.append(folder)
        return Corpus.open(Corpus.from_counts([[1, 2]]).save(folder))

    for key in ("a", "a", "b"):
        assert cached_corpus("x", key, build, tmp_path).num_tokens == 3
    assert len(built) == 2


def test_failed_build_leaves_nothing(tmp_path):
    def build(folder):
        Corpus.from_counts([[1, 2]]).save(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_corpus("x", "key", build, tmp_path)
    assert list((tmp_path / "corpora").iterdir()) == []
