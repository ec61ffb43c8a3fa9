"""What each thousand gradients buys: `vijax.auto` on posteriors that want a mixture of normals, by
`max_gradients`.

    python benchmarks/quality/budgets.py [--seeds 2] [--only epidemic counts] [--references FOLDER]

Float64. A cell has the worst error of a mean, in posterior sds, and the worst log ratio of an sd to
the posterior's, each the median over seeds; n where one normal was kept. Below the limits,
gradients that were taken where nobody sets one. References are those of `bent_posteriors.py` (long
NUTS runs are kept in the folder) and of posteriordb."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np
from bent_posteriors import POSTERIORS, posterior
from posterior_models import errors
from posteriors import spread

import vijax as vi

LIMITS = [1_000, 2_000, 3_000, 5_000, 10_000]
DRAWS = 40_000
NAMES = [*POSTERIORS, "eight_schools"]


def cell(known: Any, limit: int | None, seeds: int) -> tuple[str, list[int]]:
    """Errors at a limit, and gradients taken."""
    found, taken, mixtures = [], [], 0
    for seed in range(seeds):
        fit = vi.auto(known.model, known.data, key=jax.random.key(seed), max_gradients=limit)
        off = errors(known, fit.sample(jax.random.key(100 + seed), DRAWS))
        found.append([off.mean, off.log_sd])
        taken.append(fit.report.num_gradients)
        mixtures += "normals was kept" in fit.verdict
    mean, log_sd = np.median(found, 0)
    return f"{mean:.2f}, {log_sd:.2f}{' n' if 2 * mixtures < seeds else ''}", taken


def row(name: str, seeds: int, folder: Path) -> list[str]:
    """Of one posterior."""
    known = posterior(name, folder)
    cells = [cell(known, limit, seeds)[0] for limit in LIMITS]
    default, taken = cell(known, None, seeds)
    return [name, str(known.model.free.variables.dim), *cells, default, spread(taken, ",.0f")]


def main() -> None:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    p.add_argument("--references", type=Path, default=Path("references"))
    a = p.parse_args()
    jax.config.update("jax_enable_x64", True)
    head = ["posterior", "D", *(f"{limit:,}" for limit in LIMITS), "by default", "gradients then"]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in a.only:
        print(f"| {' | '.join(row(name, a.seeds, a.references))} |", flush=True)


if __name__ == "__main__":
    main()
