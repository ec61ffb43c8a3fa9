"""`vijax many`: regressions of many responses on one design, and the signs of their
coefficients."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vijax.app.catalogue.glmm import read_priors
from vijax.app.folder.run_folder import Say
from vijax.app.rows.transformed import write_columns
from vijax.app.settings.typed_toml import ConfigError
from vijax.checks import require
from vijax.data.reading.checks import listed
from vijax.data.schema.labels import distinct_values
from vijax.data.schema.typed_columns import TypedTable, typed_table
from vijax.files import own_folder


class ManyRequest(NamedTuple):
    """A request; `vijax many` describes the fields."""

    formula: str
    responses: str
    family: str = "gaussian"
    by: str | None = None
    prior: tuple[str, ...] = ()
    weights: str | None = None
    level: float = 0.9
    seed: int = 0
    quantile: float | None = None


def fit_many(
    data: str, request: ManyRequest, out: Path, of: tuple[str, ...], rate: float, say: Say
) -> tuple[str, bool]:
    """The text of the answer, and whether half of the fits can be used.

    Raises:
      ConfigError: a folder that is not empty, rows that cannot be paired, unknown coefficients.
      ValueError: a rate that is no probability, or a request that cannot be fitted.
    """
    from vijax import glmm

    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"--out: {out} is not empty; name a new folder")
    require(0 < rate < 1, "rate", "a probability between 0 and 1", rate, "0.05 is 5 %.")
    table = typed_table(data, (request.by or "",))
    responses: Any = request.responses
    if request.by is not None:
        responses = _turn(table, request.responses, request.by, say)
    fits = glmm.many(
        request.formula,
        table,
        responses,
        key=jax.random.key(request.seed),
        family=request.family,
        priors=read_priors(request.prior),
        weights=request.weights,
        level=request.level,
        quantile=request.quantile,
    )
    folder = own_folder(out)
    fits.save(folder / "fits.npz")
    write_columns(folder / "estimates.csv", fits.columns())
    texts = [fits.verdict]
    slopes = [name for name in fits.coefficients if name != "Intercept"]
    unknown = [name for name in of if name not in fits.coefficients]
    if unknown:
        raise ConfigError(
            f"--of: expected coefficients, of {list(fits.coefficients)}, got {unknown}. The "
            f"estimates of all are in {folder}; ask again with another --out"
        )
    for number, name in enumerate(of or slopes or fits.coefficients, 1):
        signs = fits.table(name)
        path = folder / f"{number}-{_file_name(name)}.csv"
        write_columns(path, signs.columns())
        count = len(signs.sure_signs(rate))
        texts.append(
            f"{signs}\nThe signs of {count:,} of {len(signs):,} responses are sure, at an expected "
            f"share of wrong ones of {100 * rate:g} %. All responses: {path}"
        )
    say(f"Wrote {folder}: estimates.csv, fits.npz and a table for each coefficient")
    return "\n\n".join(texts), bool(2 * fits.usable.sum() >= len(fits))


def _file_name(name: str) -> str:
    """A name with the letters that any file system takes."""
    return re.sub(r"[^\w.]+", "-", name).strip("-") or "coefficient"


def _turn(table: TypedTable, path: str, by: str, say: Say) -> dict[str, np.ndarray]:
    """Responses that are rows of a file, as columns in the order of the samples of a table."""
    samples = [str(value) for value in table.column("by", by).values]
    if len(set(samples)) < len(samples):
        raise ConfigError(f"--by: expected a name for each sample, got some twice in {by!r}")
    rows = typed_table(path)
    first, *_ = rows.columns
    lacking = [name for name in samples if name not in rows.columns]
    if lacking:
        raise ConfigError(
            f"--by: expected a column of {path} for each sample, got none for {lacking[:5]}"
        )
    if first in samples:
        raise ConfigError(
            f"--responses: expected names of responses in the first column of {path}, got the "
            f"sample {first!r}; put a column of names before it"
        )
    extra_columns = [name for name in rows.columns if name not in {first, *samples}]
    if extra_columns:
        say(f"Columns of {path} that are no samples are left out: {listed(extra_columns)}")
    names = [str(value) for value in rows.columns[first].values]
    if len(set(names)) < len(names):
        values, codes = distinct_values(np.array(names, object))
        repeated_name = values[int(np.argmax(np.bincount(codes) > 1))]
        raise ConfigError(f"--responses: expected a name for each row, got {repeated_name!r} twice")
    for name in samples:
        bad = rows.columns[name].not_numbers()
        if len(bad):
            cell = str(rows.columns[name].values[bad[0]])[:40]
            raise ConfigError(
                f"--responses: expected numbers in {name!r} of {path}, got {cell!r} in "
                f"{rows.row_name(int(bad[0]))}; write a number there, or leave the cell empty"
            )
    numbers = np.stack([rows.columns[name].numbers() for name in samples], 1)
    return dict(zip(names, numbers, strict=True))
