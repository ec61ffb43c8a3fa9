"""`load`: the fit of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vijax.app.folder.loaded import Run


def load(run: str | Path, *, training: str | None = None, allow_code: bool = False) -> Run:
    """The fit of a run of `vijax fit`, finished or not, ready for new data.

    No code in the folder is executed. An unfinished run gives its newest checkpoint. The training
    data are read again only if the model is made of them: Gaussian processes, generalised linear
    models, hierarchical regressions, graphs, pLSA, log densities, and the correlated topic model on
    full data.

    Args:
      run: the folder.
      training: path of the training data if they have moved; for models made of them.
      allow_code: True executes the Python file that a run of model.name = "density" names. It must
        be unchanged since the run began, and you must have named it in a `vijax fit` on this
        machine (or in VIJAX_ALLOW_CODE).

    Returns:
      A `vijax.app.folder.loaded.Run`: `run.fit`, `run.transform(new)`, `run.predict(new)`,
      `run.score(new)`, `run.topics()`, `run.sample(key, n)`, `run.predictive(key, n, like)`,
      `run.forecast(key, n, num_steps)`, `run.vocabulary`, `run.columns`.

    Raises:
      ConfigError: not a run folder, nothing saved yet, code that is not allowed, or training data
        that are needed and missing. It is a ValueError.

    >>> import os, tempfile, vijax as vi
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     vi.load(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vijax.app.settings.typed_toml.ConfigError: ...: not a run folder: it has no config.toml. ...
    """
    from vijax.app.folder.loaded import open_run
    from vijax.files import local_path

    return open_run(local_path(run), training, allow_code)
