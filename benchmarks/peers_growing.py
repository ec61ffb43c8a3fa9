"""bnpy 0.1.7 on data of benchmarks/growing.py, growing_topics.py and growing_states.py, in an
environment of its own.

    python benchmarks/growing.py --export mixtures.npz python benchmarks/growing_topics.py --only
    bars --export topics.npz python benchmarks/growing_states.py --export states.npz python -m venv
    bnpy && bnpy/bin/pip install wheel "setuptools<70" cython six numpy==1.23.5 scipy==1.10.1 \\
        pandas==1.5.3 scikit-learn==1.2.2 matplotlib==3.7.1 joblib munkres ply psutil
        memory_profiler numexpr
    bnpy/bin/pip install --no-deps --no-build-isolation bnpy
    bnpy/bin/python benchmarks/peers_growing.py mixtures mixtures.npz
    bnpy/bin/python benchmarks/peers_growing.py topics topics.npz found-topics
    python benchmarks/growing_topics.py --only bars --peers found-topics*.npz
    bnpy/bin/python benchmarks/peers_growing.py states states.npz found-states
    python benchmarks/growing_states.py --peers found-states*.npz

The versions that bnpy asks for do not build on Python 3.11, hence `--no-deps`;
`inspect.getargspec`, which Python 3.11 has no more, is put back. Same priors as there: Beta(1, 1)
of each pixel, concentration 1; of topics alpha = gamma = 1 and eta; of states alpha = gamma = 1,
stickiness 10 and the same normal-Wishart. All data are one batch. What it finds of topics and
states is written to files that begin with the last word, and is scored by the benchmarks of vijax.

Of states it has merges alone, and so is begun from 50. Births end in `TypeError:
GroupXData.make_subset() got an unexpected keyword argument 'example_id_list'`. Deletes, and births
where that one is mended, end in `NotImplementedError: Restricted local step function for HDPHMM`.
"""

import inspect
import sys
import tempfile
import time

import numpy as np

inspect.getargspec = lambda f: tuple(inspect.getfullargspec(f)[:4])  # type: ignore[attr-defined]
import bnpy  # type: ignore[import-not-found]  # noqa: E402

STARTS = 1, 50
MOVES = {"moves": "birth,merge,delete,shuffle", "b_startLap": 2, "m_startLap": 5}


def run(data, model: str, emission: str, start: int, laps: int, **prior):  # type: ignore[no-untyped-def]
    """The fit, what it says of itself, and CPU seconds."""
    began = time.process_time()
    how = {"nLap": laps, "nTask": 1, "nBatch": 1, "K": start, "initname": "randexamples", **prior}
    found, info = bnpy.run(
        data, model, emission, "memoVB", output_path=tempfile.mkdtemp(), **{**MOVES, **how}
    )
    return found, info, time.process_time() - began


def mixtures(path: str) -> None:
    """Prints rows."""
    data = np.load(path)
    for name in ("10 bars", "digits"):
        train, test = (
            np.ascontiguousarray(data[f"{name}|{part}"].astype(float)) for part in ("train", "test")
        )
        for start in STARTS:
            given = bnpy.data.XData(train)
            prior = {"gamma0": 1.0, "lam1": 1.0, "lam0": 1.0, "b_Kfresh": 4}
            model, info, spent = run(given, "DPMixtureModel", "Bern", start, 100, **prior)
            used = int(np.sum(model.calc_local_params(given)["resp"].sum(0) >= 0.5))
            post = model.obsModel.Post
            probs = post.lam1 / (post.lam1 + post.lam0)
            each = test @ np.log(probs).T + (1 - test) @ np.log1p(-probs).T
            score = np.logaddexp.reduce(
                each + np.log(model.allocModel.get_active_comp_probs()), axis=1
            ).mean()
            bound = -info["loss"] * train.size
            print(
                f"| {name} | bnpy from K = {start} | {used} | {bound:,.1f} | | {score:.3f} | | "
                f"{spent:.0f} |",
                file=sys.stderr,
            )


def topics(path: str, to: str) -> None:
    """Writes the mean topics and their weights at the top."""
    data = np.load(path)
    rows, words = np.nonzero(data["train"])
    ends = np.append(0, np.cumsum(np.bincount(rows, minlength=len(data["train"]))))
    counts = {"word_id": words, "word_count": data["train"][rows, words], "doc_range": ends}
    for start in STARTS:
        given = bnpy.data.BagOfWordsData(**counts, vocab_size=data["train"].shape[1])
        prior = {"alpha": 1.0, "gamma": 1.0, "lam": float(data["eta"]), "d_startLap": 5}
        model, _, spent = run(given, "HDPTopicModel", "Mult", start, 60, **prior)
        lam, weights = model.obsModel.Post.lam, model.allocModel.get_active_comp_probs()
        np.savez(
            f"{to}{start}.npz",
            topics=lam / lam.sum(1, keepdims=True),
            weights=weights,
            start=start,
            spent=spent,
        )


def states(path: str, to: str) -> None:
    """Writes the means of the transitions, of the first states, and of the emissions."""
    y = np.load(path)["train"]
    count, steps, dim = y.shape
    for start in STARTS[1:]:
        given = bnpy.data.GroupXData(y.reshape(-1, dim), doc_range=steps * np.arange(count + 1))
        chain = {"transAlpha": 1.0, "startAlpha": 1.0, "gamma": 1.0, "hmmKappa": 10.0}
        normal = {"nu": dim + 2, "kappa": 0.01, "ECovMat": "eye", "sF": dim + 2.0}
        model, _, spent = run(
            given, "HDPHMM", "Gauss", start, 100, moves="merge,shuffle", **chain, **normal
        )
        rows, post = model.allocModel, model.obsModel.Post
        mean = lambda theta: theta / theta.sum(-1, keepdims=True)
        np.savez(
            f"{to}{start}.npz",
            initial=mean(rows.startTheta)[: post.K],
            transition=mean(rows.transTheta)[: post.K, : post.K],
            mean=post.m,
            precision=np.linalg.inv(post.B) * post.nu[:, None, None],
            steps=model.calc_local_params(given)["resp"].sum(0),
            start=start,
            spent=spent,
        )


if __name__ == "__main__":
    {"mixtures": mixtures, "topics": topics, "states": states}[sys.argv[1]](*sys.argv[2:])
