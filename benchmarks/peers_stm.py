"""Topics with covariates beside R's `stm`: CPU seconds, coverage, topics.

    python benchmarks/peers_stm.py usual many short        # simulated corpora of benchmarks/stm.py, the first of each
    python benchmarks/peers_stm.py poliblog5k --topics 20  # the 5,000 posts that come with `stm` (Roberts et al. 2019)

`Rscript` with package stm is needed. Both start from anchor words. `stm` ends by its own rule; ours
take 100 steps, and are run twice: the second time is without compilation. Effects are those at
fitted topics (`sweeps=0`)."""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from stm import CASES, LEVEL, simulated

import vijax as vi
from vijax.data import Corpus
from vijax.data.corpora.corpus import split_ids
from vijax.data.corpora.select import select_words
from vijax.evaluate import document_completion, exclusivity, semantic_coherence

WRITES = """
suppressMessages(library(stm)); data(poliblog5k)
docs <- poliblog5k.docs
write.csv(data.frame(doc = rep(seq_along(docs), sapply(docs, ncol)), word = unlist(lapply(docs, function(d) d[1, ])),
                     count = unlist(lapply(docs, function(d) d[2, ]))), "counts.csv", row.names = FALSE)
write.csv(poliblog5k.meta[c("rating", "day")], "table.csv", row.names = FALSE)
write.csv(data.frame(word = poliblog5k.voc), "words.csv", row.names = FALSE)
"""
FITS = """
suppressMessages(library(stm))
a <- commandArgs(TRUE); formula <- as.formula(a[2])
counts <- read.csv("counts.csv"); table <- read.csv("table.csv"); words <- read.csv("words.csv")$word
docs <- lapply(split(counts, counts$doc), function(d) rbind(as.integer(d$word), as.integer(d$count)))
cpu <- function() sum(proc.time()[1:2])
began <- cpu()
fit <- stm(unname(docs), words, as.integer(a[1]), prevalence = formula, data = table,
           init.type = "Spectral", verbose = FALSE)
fitted <- cpu() - began; began <- cpu()
effects <- estimateEffect(formula, fit, metadata = table)
taken <- cpu() - began
found <- do.call(rbind, lapply(summary(effects)$tables, function(t) t[a[3], 1:2]))
write.csv(exp(fit$beta$logbeta[[1]]), "topics.csv", row.names = FALSE)
write.csv(data.frame(effect = found[, 1], sd = found[, 2]), "effects.csv", row.names = FALSE)
write.csv(data.frame(iterations = length(fit$convergence$bound), fit = fitted, effects = taken), "times.csv",
          row.names = FALSE)
"""


def in_r(folder, script, *arguments):
    (folder / "script.R").write_text(script)
    subprocess.run(["Rscript", "script.R", *arguments], cwd=folder, check=True)


def posts(folder):
    """Political blogs of 2008: documents, and the rating and day of each."""
    in_r(folder, WRITES)
    counts, table = pd.read_csv(folder / "counts.csv"), pd.read_csv(folder / "table.csv")
    words = pd.read_csv(folder / "words.csv").word.astype(str).tolist()
    rows, ids, numbers = (counts[name].to_numpy() for name in ("doc", "word", "count"))
    shape = (len(table), len(words))
    return Corpus.from_counts(
        sp.csr_array((numbers, (rows - 1, ids - 1)), shape=shape), words
    ), table


def fitted_in_r(folder, corpus, table, topics, formula, row):
    """Topics, effects, and seconds of `stm`; words and documents are counted from 1 there."""
    at = corpus.to_scipy().tocoo()
    counts = pd.DataFrame({"doc": at.row + 1, "word": at.col + 1, "count": at.data})
    words = pd.DataFrame({"word": corpus.vocabulary or [f"w{i}" for i in range(corpus.vocab_size)]})
    for name, x in {"counts": counts, "table": pd.DataFrame(table), "words": words}.items():
        x.to_csv(folder / f"{name}.csv", index=False)
    in_r(folder, FITS, str(topics), formula, row)
    found, effects, times = (
        pd.read_csv(folder / f"{name}.csv") for name in ("topics", "effects", "times")
    )
    return found.to_numpy(), effects.to_numpy(), times.iloc[0]


def ours(corpus, table, topics, formula, row, eta):
    """The same of `vijax.stm`, and the seconds of the first fit."""
    seconds = []
    for _ in range(2):
        times = [time.process_time()]
        model = vi.stm(topics, corpus, table, formula, eta=eta)
        fit = vi.fit(vi.cavi(model), model.data, num_steps=100, key=jax.random.key(0))
        times.append(time.process_time())
        effects = model.effects(fit, key=jax.random.key(1), level=LEVEL, sweeps=0)
        seconds.append(np.diff([*times, time.process_time()]))
    at = effects.labels.index(row)
    (first, first_effects), (again, effects_again) = seconds
    times = {"iterations": 100, "fit": again, "effects": effects_again}
    found = np.asarray(fit.posterior["topics"].mean())
    return found, np.stack([effects.mean[:, at], effects.sd[:, at]], 1), times, first, first_effects


def matched(topics, beside):
    """The topics in the order in which they are nearest to the others, and the mean distance."""
    gaps = np.abs(topics[:, None] - beside[None]).sum(-1)
    _, order = linear_sum_assignment(gaps.T)
    return order, gaps.T[np.arange(len(order)), order].mean()


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="+", choices=[*CASES, "poliblog5k"])
    p.add_argument("--topics", type=int, default=20, help="of the posts")
    p.add_argument("--held-out", type=int, default=500, help="posts held out")
    a = p.parse_args()
    columns = (
        "data",
        "library",
        "CPU s (first)",
        "iterations",
        "effects, CPU s",
        "held-out",
        "coherence",
        "exclusivity",
    )
    print(f"| {' | '.join((*columns, 'effects'))} |\n|{'---|' * (len(columns) + 1)}")
    for name in a.names:
        with tempfile.TemporaryDirectory() as folder:
            one(Path(folder), name, a.topics, a.held_out)


def one(folder, name, topics, held_out):
    """The two rows of a corpus."""
    if name == "poliblog5k":
        corpus, table = posts(folder)
        rows = split_ids(corpus.num_documents, held_out, 0)
        (corpus, test), table = (corpus[part] for part in rows), table.iloc[rows[0]]
        formulas, names = (
            ("~ rating + bs(day, df=10)", "~ rating + s(day)"),
            ("rating[Liberal]", "ratingLiberal"),
        )
        beta, truth, eta = None, None, 0.01
    else:
        corpus, table, beta, _, effects = simulated(1000, *CASES[name])
        topics, test, truth, eta = len(beta), None, effects[:, 0], 0.1
        formulas, names = ("~ party + day",) * 2, ("party[R]", "partyR")
    occurs = np.flatnonzero(corpus.word_counts())  # `stm` takes no other words
    corpus, test = (some and select_words(some, occurs) for some in (corpus, test))
    theirs = fitted_in_r(folder, corpus, table, topics, formulas[1], names[1])
    found = ours(corpus, table, topics, formulas[0], names[0], eta)
    order, apart = matched(found[0], theirs[0])
    for library, (words, effects, times, *first) in {"stm": theirs, "vijax": found}.items():
        score = (
            ""
            if test is None
            else f"{document_completion(words, 0.1, test, jax.random.key(2)).mean:.3f}"
        )
        said = [f"{semantic_coherence(words, corpus).mean:.2f}", f"{exclusivity(words).mean:.3f}"]
        if truth is not None:
            true = truth[matched(beta[:, occurs], words)[0]]
            said.append(
                f"{np.mean(np.abs(effects[:, 0] - true) < 1.645 * effects[:, 1]):.2f} covered"
            )
        elif library == "stm":
            said.append("")
        else:
            (mean, sd), (other, other_sd) = effects[order].T, theirs[1].T
            alike, ratio = np.corrcoef(mean, other)[0, 1], np.median(sd / other_sd)
            said.append(f"correlation {alike:.2f}, sds {ratio:.2f} times")
        seconds = [f"{times[of]:.2f}" for of in ("fit", "effects")]
        seconds = (
            [f"{again} ({one:.1f})" for again, one in zip(seconds, first, strict=True)]
            if first
            else seconds
        )
        row = name, library, seconds[0], f"{times['iterations']:.0f}", seconds[1], score, *said
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nTopics are {apart:.2f} apart (of 2).\n")


if __name__ == "__main__":
    main()
