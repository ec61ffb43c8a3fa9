"""The registry of run folders: for each model of the command line a small run, on which the laws of
tests/models/test_laws_run_folders.py run.

A row has training data, new data, and settings of a run of a few steps. Data are of a form: a
table, documents, users with their items, a graph. A form knows how its data are written, and as
what else the same new data may come: other types, other orders of columns, columns beside them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Columns = Mapping[str, Any]
RNG = np.random.default_rng(0)


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class RunCase:
    """A model of the command line with data for a small run."""

    name: str
    covers: str
    """The model's name on the command line."""
    form: Form
    settings: tuple[str, ...] = ()
    """Settings of the run, as after --set."""
    cheap: bool = False
    """Whether the laws run on it by default."""
    scores: bool = True
    """Whether new data may be scored."""

    def __repr__(self) -> str:
        return self.name


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """Training data and new data of one form; `settings` are those that every run on them needs."""

    train: Columns
    new: Columns
    settings: tuple[str, ...] = ()
    ending: str = "csv"

    def write(self, folder: Path) -> Path:
        """The file of training data."""
        return written(folder / f"train.{self.ending}", self.train)

    def sources(self, folder: Path) -> dict[str, Any]:
        """The new data as a file, and as all else that says the same."""
        raise NotImplementedError


def written(path: Path, columns: Columns) -> Path:
    """Columns as a file of commas, numbers with all of their digits."""
    rows = zip(*(column.tolist() for column in map(np.asarray, columns.values())), strict=True)
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


class Table(Form):
    """Columns of numbers, and of labels that are whole numbers: 7 in memory, "7" in a file."""

    def sources(self, folder: Path) -> dict[str, Any]:
        import pandas

        columns = {name: np.asarray(column) for name, column in self.new.items()}
        backwards = {
            "more": np.arange(len(next(iter(columns.values())))),
            **dict(reversed(columns.items())),
        }
        frame = pandas.DataFrame(columns)
        return {
            "file": written(folder / "new.csv", columns),
            "columns in another order": written(folder / "backwards.csv", backwards),
            "pandas": frame,
            "columns of objects": frame.astype(object),
            "text": {name: [str(x) for x in column.tolist()] for name, column in backwards.items()},
            "lists": {name: column.tolist() for name, column in columns.items()},
            **libraries(columns, folder),
        }

    def with_a_gap(self, folder: Path) -> dict[str, Any]:
        """The new data without the first number of the third row: a blank in a file, NaN, None."""
        import pandas

        name, *_ = self.new
        lists = {key: np.asarray(column).tolist() for key, column in self.new.items()}
        lists[name][2] = None
        blanks = {key: ["" if x is None else x for x in column] for key, column in lists.items()}
        rows = [",".join(map(str, row)) for row in zip(*blanks.values(), strict=True)]
        (folder / "gap.csv").write_text("\n".join([",".join(blanks), *rows]) + "\n")
        return {"file": folder / "gap.csv", "pandas": pandas.DataFrame(lists), "lists": lists}


def libraries(columns: Columns, folder: Path) -> dict[str, Any]:
    """The same columns in other libraries, where these are installed."""
    forms: dict[str, Any] = {}
    try:
        import pyarrow
        import pyarrow.parquet

        forms["arrow"] = pyarrow.table(dict(columns))
        pyarrow.parquet.write_table(forms["arrow"], folder / "new.parquet")
        forms["parquet"] = folder / "new.parquet"
    except ImportError:
        pass
    try:
        import polars

        forms["polars"] = polars.DataFrame(dict(columns))
    except ImportError:
        pass
    return forms


class Texts(Form):
    """A column of texts, and others beside it."""

    def sources(self, folder: Path) -> dict[str, Any]:
        import pandas

        columns = {name: np.asarray(column) for name, column in self.new.items()}
        backwards = dict(reversed(columns.items()))
        records = [
            dict(zip(columns, row, strict=True)) for row in zip(*self.lists().values(), strict=True)
        ]
        (folder / "new.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
        return {
            "file": written(folder / "new.csv", columns),
            "columns in another order": written(folder / "backwards.csv", backwards),
            "json": folder / "new.jsonl",
            "pandas": pandas.DataFrame(columns),
            **libraries(columns, folder),
        }

    def lists(self) -> dict[str, list[Any]]:
        return {name: np.asarray(column).tolist() for name, column in self.new.items()}


class Bags(Texts):
    """Texts alone: a list of them will do too."""

    def sources(self, folder: Path) -> dict[str, Any]:
        lines = folder / "new.txt"
        texts = self.lists()["text"]
        lines.write_text("\n".join(texts) + "\n")
        return {**super().sources(folder), "list": texts, "lines": lines}


class Ratings(Form):
    """Who took what, a row each."""

    def sources(self, folder: Path) -> dict[str, Any]:
        import pandas

        backwards = dict(reversed(self.new.items()))
        return {
            "file": written(folder / "new.csv", self.new),
            "columns in another order": written(folder / "backwards.csv", backwards),
            "pandas": pandas.DataFrame(dict(self.new)),
            **libraries(dict(self.new), folder),
        }


class Edges(Form):
    """A graph, as a list of its edges."""

    def sources(self, folder: Path) -> dict[str, Any]:
        backwards = dict(reversed(self.new.items()))
        return {
            "file": written(folder / "new.csv", self.new),
            "columns in another order": written(folder / "backwards.csv", backwards),
        }


# --- data -----------------------------------------------------------------------------------------
ROWS, NEW_ROWS, GROUPS = 24, 7, 4


def pair(columns: Callable[[int], Columns], kind: type[Form], *settings: str) -> Form:
    """A form with training data and new ones, drawn by the same function of a number of rows."""
    return kind(columns(ROWS), columns(NEW_ROWS), settings)


def real(rows: int) -> Columns:
    """Two clusters of three columns."""
    centres = 4.0 * (np.arange(rows) % 2)[:, None]
    x = np.round(RNG.normal(size=(rows, 3)) + centres, 3)
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}


def counts(rows: int) -> Columns:
    x = RNG.poisson(3.0, (rows, 3)) + 1
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2]}


def bits(rows: int) -> Columns:
    x = RNG.integers(0, 2, (rows, 4))
    return {f"bit{d}": x[:, d] for d in range(4)}


def with_response(rows: int) -> Columns:
    x = np.round(RNG.normal(size=(rows, 2)), 3)
    y = np.round(1.0 + x @ [0.8, -0.5] + 0.3 * RNG.normal(size=rows), 3)
    return {"x1": x[:, 0], "x2": x[:, 1], "y": y}


def with_count(rows: int) -> Columns:
    columns = with_response(rows)
    return {**columns, "y": RNG.poisson(np.exp(0.5 * columns["x1"] + 0.5))}


def with_class(rows: int) -> Columns:
    columns = with_response(rows)
    return {**columns, "y": np.where(columns["y"] > 1.0, "yes", "no")}


def grouped(columns: Callable[[int], Columns]) -> Callable[[int], Columns]:
    """The same with groups 7, 14, ...; of the new rows some are of a group that training has not
    seen."""

    def with_groups(rows: int) -> Columns:
        groups = 7 * (1 + np.arange(rows) % GROUPS)
        if rows == NEW_ROWS:
            groups[-1] = 99
        return {**columns(rows), "g": groups}

    return with_groups


def sequences(columns: Callable[[int], Columns]) -> Callable[[int], Columns]:
    """The same as sequences, whose rows lie in no order: `t` numbers them."""

    def in_time(rows: int) -> Columns:
        order = RNG.permutation(rows)
        length = rows // GROUPS if rows == ROWS else 4
        found = {**columns(rows), "s": np.arange(rows) // length + 3, "t": np.arange(rows) % length}
        return {name: np.asarray(column)[order] for name, column in found.items()}

    return in_time


WORDS = ["apple", "pear", "plum", "fig", "oak", "elm", "ash", "yew"]


def texts(rows: int) -> Columns:
    words = np.array(WORDS).reshape(2, 4)
    return {"text": [" ".join(RNG.choice(words[i % 2], 6)) for i in range(rows)]}


def described(rows: int) -> Columns:
    return {
        **texts(rows),
        "year": np.round(RNG.normal(size=rows), 2),
        "kind": [("old", "new")[i % 2] for i in range(rows)],
    }


def dated(rows: int) -> Columns:
    """Texts of three months."""
    days = [f"2024-{4 + i % 3:02d}-{1 + i % 28:02d}" for i in range(rows)]
    return {**texts(rows), "day": days}


def takings(rows: int) -> Columns:
    """Users 101, 102, ... with their items, which have numbers too."""
    pairs = [
        (101 + user, 7 + (user + step) % 6)
        for user in range(rows // 2)
        for step in range(1 + user % 3)
    ]
    users, items = np.array(pairs).T
    return {"user": users, "item": items}


def edges(rows: int) -> Columns:
    """A ring with chords, of ten nodes."""
    nodes = np.arange(10)
    ends = np.concatenate([(nodes + 1) % 10, (nodes + (3 if rows == ROWS else 4)) % 10])
    return {"source": np.tile(nodes, 2) + 20, "target": ends + 20}


OF_TEXTS = ("data.min_df=1", "data.max_df=1.0", "data.stop_words=none")
REAL = pair(real, Table)
COUNTS = pair(counts, Table)
SEQUENCES = pair(sequences(real), Table, "data.group=s")
TEXTS = pair(texts, Bags, *OF_TEXTS)
TARGET = "data.target=y"
ROWS_OF_GROUPS = (TARGET, "data.group=g")
SHORT = (
    "fit.num_epochs=2",
    "fit.evaluate_every=0",
    "fit.restarts=1",
    "fit.checkpoint_every_s=0",
    "data.held_out=0.25",
)
"""Settings of every run but those that stop by themselves."""
NETWORKS = ("model.networks.hidden=[4]", "fit.batch_size=6")

CASES = [
    # Documents.
    RunCase("lda", "lda", TEXTS, ("model.num_topics=2", "fit.batch_size=8"), cheap=True),
    RunCase("ctm", "ctm", TEXTS, ("model.num_topics=2",)),
    RunCase("hdp", "hdp", TEXTS, ("model.num_topics=4", "fit.batch_size=8")),
    RunCase("simple_mixture", "simple_mixture", TEXTS, ("model.num_topics=2",)),
    RunCase("plsa", "plsa", TEXTS, ("model.num_topics=2",)),
    RunCase(
        "stm",
        "stm",
        pair(described, Texts, *OF_TEXTS),
        ("model.num_topics=2", "model.prevalence=~ year + kind"),
    ),
    RunCase(
        "dtm",
        "dtm",
        pair(dated, Texts, *OF_TEXTS),
        ("model.num_topics=2", "data.time=day", "data.slices=month", "fit.batch_size=8"),
    ),
    RunCase(
        "hpf",
        "hpf",
        pair(takings, Ratings),
        ("model.num_components=2",),
    ),
    # Rows.
    RunCase("mixture", "mixture", REAL, ("model.num_components=2",), cheap=True),
    RunCase(
        "mixture_full",
        "mixture",
        REAL,
        ("model.num_components=2", "model.emission.name=full_gaussian", "data.standardise=true"),
    ),
    RunCase(
        "mixture_poisson",
        "mixture",
        COUNTS,
        ("model.num_components=2", "model.emission.name=poisson"),
    ),
    RunCase(
        "mixture_bernoulli",
        "mixture",
        pair(bits, Table),
        ("model.num_components=2", "model.emission.name=bernoulli"),
    ),
    RunCase("dp_mixture", "dp_mixture", REAL, ("model.num_components=3",)),
    RunCase("factor_analysis", "factor_analysis", REAL, ("model.num_factors=2",)),
    RunCase("gap_nmf", "gap_nmf", COUNTS, ("model.num_components=3",)),
    RunCase("vae", "vae", REAL, ("model.latent_dim=2", *NETWORKS)),
    RunCase("svae", "svae", REAL, ("model.num_components=2", "model.latent_dim=2", *NETWORKS)),
    # Responses.
    RunCase("ard_regression", "ard_regression", pair(with_response, Table, TARGET), cheap=True),
    RunCase("gp", "gp", pair(with_response, Table, TARGET), ("model.likelihood.name=gaussian",)),
    RunCase(
        "gp_classes",
        "gp",
        pair(with_class, Table, TARGET),
        ("model.likelihood.name=bernoulli_logit",),
    ),
    RunCase("glm", "glm", pair(with_count, Table, TARGET), ("model.likelihood.name=poisson_log",)),
    RunCase(
        "glm_noise",
        "glm",
        pair(with_response, Table, TARGET),
        ("model.likelihood.name=gaussian",),
        cheap=True,
    ),
    RunCase("logistic_regression", "logistic_regression", pair(with_class, Table, TARGET)),
    RunCase(
        "hierarchical_linear",
        "hierarchical_regression",
        pair(grouped(with_response), Table, *ROWS_OF_GROUPS),
    ),
    RunCase(
        "hierarchical_probit",
        "hierarchical_regression",
        pair(grouped(with_class), Table, *ROWS_OF_GROUPS),
        ("model.response.name=probit",),
    ),
    RunCase(
        "glmm",
        "glmm",
        pair(grouped(with_response), Table),
        ("model.formula=y ~ x1 + scale(x2) + (x1 | g)",),
    ),
    RunCase(
        "glmm_classes",
        "glmm",
        pair(grouped(with_class), Table),
        ("model.formula=y ~ x1 + (1 | g)", "model.family=bernoulli"),
    ),
    RunCase(
        "glmm_parameter",
        "glmm",
        pair(grouped(with_response), Table),
        ("model.formula=y ~ x1 + (1 | g)", 'model.formulas=["sigma ~ x2"]'),
    ),
    RunCase("density", "density", pair(with_response, Table, TARGET), scores=False),
    # Series.
    RunCase("hmm", "hmm", SEQUENCES, ("model.num_states=2",)),
    RunCase("hdp_hmm", "hdp_hmm", SEQUENCES, ("model.num_states=3",)),
    RunCase(
        "factorial_hmm", "factorial_hmm", SEQUENCES, ("model.num_chains=2", "model.num_states=2")
    ),
    RunCase("state_space", "state_space", SEQUENCES, ("model.num_states=2",)),
    RunCase("arhmm", "arhmm", SEQUENCES, ("model.num_states=2",)),
    RunCase("slds", "slds", SEQUENCES, ("model.num_states=2", "model.latent_dim=2")),
    RunCase(
        "recurrent_slds", "recurrent_slds", SEQUENCES, ("model.num_states=2", "model.latent_dim=2")
    ),
    RunCase(
        "dynamic_svae",
        "dynamic_svae",
        SEQUENCES,
        ("model.latent_dim=2", "model.networks.hidden=[4]", "fit.batch_size=2"),
    ),
    # Graphs.
    RunCase(
        "stochastic_block_model",
        "stochastic_block_model",
        pair(edges, Edges),
        ("model.num_blocks=2",),
    ),
]
