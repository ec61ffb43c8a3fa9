"""Of how many normals q is a mixture, in the folder of a run by `vijax.auto`: no setting says it, and the shapes of its
checkpoints depend on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vijax.app.runs.at_once import is_at_once
from vijax.app.runs.run_folder import read_json, write_json
from vijax.app.settings.typed_toml import DamagedError
from vijax.automatic.report import of_mixture
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.fitting.fit import Progress
from vijax.inference.compose import Algorithm
from vijax.inference.guides import Z

FILE = "mixture.json"


def keeper(folder: Path) -> Callable[[Progress], None]:
    """A callback that writes into the folder what the state is of, before its checkpoint is."""

    def keep(seen: Progress) -> None:
        (folder / FILE).unlink(missing_ok=True)
        q = seen.state.posterior[Z]
        if isinstance(q, NormalMixture):
            write_json(folder / FILE, {"components": int(q.logits.size)})

    return keep


def as_kept(folder: Path, config: Any, algorithm: Algorithm) -> Algorithm:
    """The algorithm of what a run's checkpoints hold: that of its settings, but where it has kept a mixture.

    Raises:
      DamagedError: the file that says so is damaged.
    """
    path = folder / FILE
    if not is_at_once(config) or not path.is_file():
        return algorithm
    remedy = f"fit it again: vijax resume {folder}"
    count = read_json(path, remedy).get("components")
    if not isinstance(count, int) or count < 1:
        raise DamagedError(f"{path}: damaged: expected the number of components", remedy)
    model: Any = algorithm.spec.model
    return of_mixture(model, count)
