"""`vijax many`: regressions of many responses on one design, and the signs of their
coefficients."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from vijax.app.catalogue.glmm import read_priors
from vijax.app.folder.run_folder import Say
from vijax.app.plan.wording import SETTING
from vijax.app.rows.transformed import write_columns
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.tables import AllBut
from vijax.checks import require
from vijax.data.formulas.parser import parse
from vijax.data.reading.checks import Notes, listed
from vijax.data.schema.cells import column_name
from vijax.data.schema.missing_words import doubtful_code
from vijax.data.schema.typed_columns import TypedColumn, TypedTable, table_of_file
from vijax.data.tables.formats import Dialect
from vijax.data.tables.table_files import names_of_columns, read_columns
from vijax.files import own_folder
from vijax.models.formulas.formula import column_roles, named_columns

MOST_NOTES = 5
"""Notes on a file that are said."""


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
    missing: Literal["refuse", "drop"] = "refuse"
    missing_words: tuple[str, ...] | None = None
    precisions: str | None = None

    @property
    def dialect(self) -> Dialect:
        """The way in which both files are written."""
        return Dialect(missing_words=self.missing_words)


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
    table = _read_samples(data, request, say)
    responses: Any = _read_responses(table, request, say)
    task = glmm.many.task(
        request.formula,
        table,
        responses,
        family=request.family,
        priors=read_priors(request.prior),
        weights=request.weights,
        quantile=request.quantile,
        missing=request.missing,
        precisions=request.precisions,
    )
    coefficients = list(task.design.coefficients)
    unknown = [name for name in of if name not in coefficients]
    if unknown:
        raise ConfigError(f"--of: expected coefficients, of {coefficients}, got {unknown}")
    _say_codes(dict(zip(task.responses.names, task.responses.values.T, strict=True)), say)
    fits = glmm.many.fit(task, jax.random.key(request.seed), request.level)
    folder = own_folder(out)
    fits.save(folder / "fits.npz")
    write_columns(folder / "estimates.csv", fits.columns())
    texts = [fits.verdict]
    slopes = [name for name in fits.coefficients if name != "Intercept"]
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


# --- files ----------------------------------------------------------------------------------------
def _read_samples(path: str, request: ManyRequest, say: Say) -> TypedTable:
    """The table of the samples. Names of groups and of samples are the exact text of the file."""
    parsed = parse(request.formula)
    roles = column_roles(parsed)
    numbers = [name for name in roles.numbers if name not in roles.labels and name != request.by]
    numbers += filter(None, (request.weights, request.precisions))
    notes = Notes()
    read = functools.partial(read_columns, path, dialect=request.dialect, notes=notes)
    table = table_of_file(read, AllBut(tuple(numbers)), roles.numbers)
    _say_notes(notes, say)
    used_names = [name for name in named_columns(parsed, with_response=False) if name in table]
    for name in used_names:
        remedy = " If it is a name: --missing-words with no word after it."
        if text := table.columns[name].said_missing(remedy):
            say(text)
    columns = {name: table.columns[name] for name in used_names if name in roles.numbers}
    is_number = lambda column: column.kind == "number" and not len(column.not_numbers())
    _say_codes({name: x.numbers() for name, x in columns.items() if is_number(x)}, say)
    if request.missing == "refuse":
        names = [*named_columns(parsed, with_response=False), request.weights, request.precisions]
        _check_whole(path, table, [name for name in names if name is not None])
    return table


def _check_whole(path: str, table: TypedTable, names: Sequence[str]) -> None:
    """Raises ConfigError if rows lack a cell of these columns."""
    masks = {name: table.column("table", name).missing for name in names}
    masks = {name: mask for name, mask in masks.items() if mask.any()}
    if masks:
        rows = table.list_rows(np.flatnonzero(np.any(list(masks.values()), axis=0)).tolist())
        cells = ", ".join(f"{mask.sum():,} of {name!r}" for name, mask in masks.items())
        raise ConfigError(
            f"{path}: expected values in all columns of the formula, got none in {rows} (missing "
            f"cells: {cells}); fill them in, or leave these rows out: --missing drop"
        )


def _read_responses(table: TypedTable, request: ManyRequest, say: Say) -> Any:
    """The responses, as columns in the order of the samples."""
    path = request.responses
    exact: tuple[str, ...] = ()
    if request.by is not None:
        header = names_of_columns(path, request.dialect) or [""]
        exact = (column_name(str(header[0]).strip()),)
    notes = Notes()
    read = functools.partial(read_columns, path, dialect=request.dialect, notes=notes)
    responses = table_of_file(read, exact)
    if request.by is None:
        _say_notes(notes, say)
        return responses
    columns = _turn(table, responses, request, say)
    _say_notes(notes, say, "was taken for the header")  # samples may have numbers for names
    return columns


SAID_TOGETHER = "it counts as a number"
"""Words of the note on a number that may stand for a missing value: all columns have one line."""


def _say_notes(notes: Notes, say: Say, unsaid: str = SAID_TOGETHER) -> None:
    """Says what was noted of a file, without the settings that this command does not have, and
    without the notes that say `unsaid`."""
    texts = []
    for note in notes.texts():
        sentences = [text for text in re.split(r"(?<=\.) ", note) if not SETTING.search(text)]
        text = " ".join(sentences).removesuffix(": set sheet for another.")
        if text and unsaid not in text and SAID_TOGETHER not in text:
            texts.append(text)
    for text in texts[:MOST_NOTES]:
        say(text)
    if len(texts) > MOST_NOTES:
        say(f"... and {len(texts) - MOST_NOTES:,} more such notes")


def _say_codes(columns: dict[str, np.ndarray], say: Say) -> None:
    """Says which columns have -999, or another number that may stand for a missing value."""
    codes = {name: doubtful_code(numbers) for name, numbers in columns.items()}
    for code in sorted({code for code in codes.values() if code is not None}):
        names = [name for name in codes if codes[name] == code]
        say(
            f"{code} is far from all other numbers of {listed(names)}, and counts as a number. If "
            f"it stands for a missing value: --missing-words={code} NA"
        )


# --- responses that are rows ----------------------------------------------------------------------
def _turn(
    table: TypedTable, rows: TypedTable, request: ManyRequest, say: Say
) -> dict[str, np.ndarray]:
    """Responses that are rows of a file, as columns in the order of the samples of a table."""
    path, by = request.responses, str(request.by)
    samples = _exact_names(table.column("by", by))
    if len(set(samples)) < len(samples) or not all(samples):
        raise ConfigError(
            f"--by: expected a name for each sample, got none for one, or one twice, in {by!r}"
        )
    first, *_ = rows.columns
    lacking = [name for name in samples if name not in rows.columns]
    if lacking:
        raise ConfigError(
            f"--by: expected a column of {path} for each sample, got none for {lacking[:5]}"
        )
    if first in samples:
        raise ConfigError(
            f"--responses: expected names of responses in the first column of {path}, got the "
            f"sample {first!r}; put a column of names before it, with a name of its own"
        )
    extra_columns = [name for name in rows.columns if name not in {first, *samples}]
    if extra_columns:
        say(f"Columns of {path} that are no samples are left out: {listed(extra_columns)}")
    names = _exact_names(rows.columns[first])
    _check_names(names, rows)
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


def _exact_names(column: TypedColumn) -> list[str]:
    """The names in a column as the file has them: 007 and NA are names."""
    names = column.labels().texts().astype(object)
    if column.written is not None:
        is_word = np.array([isinstance(cell, str) for cell in column.written], bool)
        names = np.where(column.missing & is_word, column.written, names)
    return [str(name).strip() for name in names]


def _check_names(names: list[str], rows: TypedTable) -> None:
    """Raises ConfigError unless each row has a name of its own."""
    row_of: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            actual = f"none in {rows.row_name(row)}"
        elif name in row_of:
            actual = f"{name!r} in {rows.row_name(row_of[name])} and in {rows.row_name(row)}"
        else:
            row_of[name] = row
            continue
        raise ConfigError(f"--responses: expected a name for each row, got {actual}")
