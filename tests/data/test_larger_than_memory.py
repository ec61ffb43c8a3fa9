"""A corpus of 160 MB is read, and one of 64 MB is made from text, by processes that may allocate a fraction of that."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from vijax.data.corpus import Corpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA to count anonymous mappings")

LIMIT = """
import resource, sys
import numpy as np
import vijax.data as data, vijax.batch, sklearn.feature_extraction.text
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
    """4 million pairs: 32 MB as provisional and 32 MB as final arrays, beside 36 MB of text, when all are in memory."""
    script = """
    from pathlib import Path
    from vijax.data.text import corpus_from_texts
    words = [f"word{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}" for n in range(676)] * 2
    texts = ((str(n), " ".join(words[n % 676 : n % 676 + 500])) for n in range(8_000))
    corpus = corpus_from_texts(texts, data.TextSettings(max_df=1.0), folder=Path(sys.argv[1]) / "corpus")
    print(len(corpus.indices))
    """
    assert int(run(40, script, tmp_path)) == 8_000 * 500
