"""A corpus of 160 MB is read, and one of 64 MB is made from text, by processes that may allocate a
fraction of that."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import split_over_seen_words

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs RLIMIT_DATA to count anonymous mappings"
)

LIMIT = """
import resource, sys
import numpy as np
import vijax.data as data, vijax.contract.batch, sklearn.feature_extraction.text
in_use = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (in_use + {megabytes} * 2**20,) * 2)
try:
    np.ones(150 * 2**20, np.uint8)
    sys.exit("the limit does not hold")
except MemoryError:
    pass
"""


def run(megabytes, script, *arguments):
    code = LIMIT.format(megabytes=megabytes) + textwrap.dedent(script)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_minibatches_of_a_corpus_larger_than_memory(tmp_path):
    documents, words = 200_000, 100
    corpus = Corpus(
        np.arange(documents + 1) * words,
        np.tile(np.arange(words, dtype=np.int32), documents),
        np.tile(np.arange(1, words + 1, dtype=np.int32), documents),
    )
    corpus.save(tmp_path)
    script = """
    corpus = data.Corpus.open(sys.argv[1])
    batches = data.minibatches(corpus, 1000, seed=0, num_steps=200)
    print(int(sum(documents.counts.sum(dtype=np.float64) for batch in batches for documents in batch.data)))
    """
    assert int(run(60, script, tmp_path)) == documents * words * (words + 1) // 2


def test_text_is_counted_in_bounded_memory(tmp_path):
    """4 million pairs: 32 MB as provisional and 32 MB as final arrays, beside 36 MB of text, when
    all are in memory."""
    script = """
    from pathlib import Path
    from vijax.data.texts.text import corpus_from_texts
    words = [f"word{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}" for n in range(676)] * 2
    texts = ((str(n), " ".join(words[n % 676 : n % 676 + 500])) for n in range(8_000))
    corpus = corpus_from_texts(texts, data.TextSettings(max_df=1.0), folder=Path(sys.argv[1]) / "corpus")
    print(len(corpus.indices))
    """
    assert int(run(40, script, tmp_path)) == 8_000 * 500


def test_a_run_on_a_corpus_larger_than_memory_holds_documents_out(tmp_path):
    """What the command line does with it: split, words unseen in training dropped, a batch read."""
    documents, words = 200_000, 100
    corpus = Corpus(
        np.arange(documents + 1) * words,
        np.tile(np.arange(words, dtype=np.int32), documents),
        np.tile(np.arange(1, words + 1, dtype=np.int32), documents),
    )
    corpus.save(tmp_path)
    script = """
    from vijax.app.sources.documents import load_documents
    from vijax.app.settings.sections import DocumentData
    train, test = load_documents(DocumentData(path=sys.argv[1], held_out=0.01))
    batch = next(iter(data.minibatches(train, 1000, seed=0, num_steps=1)))
    print(train.num_documents, test.num_documents, train.num_tokens, train.mapped)
    """
    expected = f"198000 2000 {198_000 * words * (words + 1) // 2} True"
    assert run(90, script, tmp_path).strip() == expected


def test_splitting_on_disk_is_splitting_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    corpus = Corpus.from_counts(
        rng.poisson(0.03, (60, 300)),
        [f"w{i}" for i in range(300)],
        titles=[str(i) for i in range(60)],
    )
    corpus.save(tmp_path)
    memory, disk = (split_over_seen_words(c, 0.3, 1) for c in (corpus, Corpus.open(tmp_path)))
    assert disk[0].mapped
    for one, other in zip(memory, disk, strict=True):
        assert one.vocabulary == other.vocabulary
        assert len(one.vocabulary) < 300
        assert tuple(one.titles) == tuple(other.titles)
        np.testing.assert_array_equal(one.to_scipy().toarray(), other.to_scipy().toarray())
