"""`load`: the fit of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vijax.app.folder.loaded import Run


def load(run: str | Path, *, training: str | None = None, allow_code: bool = False) -> Run:
    """The fit that a run of `vijax fit` has left, finished or not, ready for new data.

    Nothing in the folder is executed. Of an unfinished run the newest checkpoint is taken. The
    training data are not read again unless the model is made of them: Gaussian processes,
    generalised linear models, hierarchical regressions, graphs, pLSA, log densities, and the
    correlated topic model on full data.

    Args:
      run: the folder.
      training: the place of the training data now, for such a model, if they have been moved.
      allow_code: whether the Python file that a run of model.name = "density" names may be
        executed. It has to be the file with which the run began, and you must have named it in a
        `vijax fit` on this machine (or in VIJAX_ALLOW_CODE).

    Returns:
      A `vijax.app.folder.loaded.Run`: `run.fit`, `run.transform(new)`, `run.predict(new)`,
      `run.score(new)`, `run.topics()`, `run.sample(key, n)`, `run.predictive(key, n, like)`,
      `run.forecast(key, n, num_steps)`, `run.vocabulary`, `run.columns`.

    Raises:
      ConfigError: not a run folder, nothing was saved yet, code that is not allowed, training data
        that are needed and are not there. It is a ValueError.

    >>> import os, tempfile, vijax as vi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vi.load(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vijax.app.settings.typed_toml.ConfigError: ...: not a run folder: it has no config.toml. ...
    """
    from vijax.app.folder.loaded import read

    return read(Path(run).expanduser(), training, allow_code)
