"""Users and items as data of a run: documents and their words, with tables of numbers (features) of
users and of items."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.settings.quoting import quote
from vijax.app.settings.sections import RatingData
from vijax.app.settings.typed_toml import ConfigError, DamagedError
from vijax.app.sources.documents import DOCUMENTS, new_documents
from vijax.app.sources.listing import Data, New
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.tables import scale_bytes
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.rating_columns import find_role_column
from vijax.data.corpora.users import Users
from vijax.data.reading.checks import DataError, Notes, fail, listed
from vijax.data.schema.by_name import columns_by_name
from vijax.data.tables.formats import Dialect, load_arrays
from vijax.data.tables.table import Choice, Scaling, Table, make_table
from vijax.data.tables.table_files import read_columns
from vijax.files import write_arrays

USER, ITEM = "user", "item"
FEATURES = "features.npz"
"""The file of a run with what it keeps of both tables."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class UsersWithFeatures(Users):
    """Users and the items that they took, with features of both, which have mean 0 and deviation 1
    in training.

    Attributes:
      users: features of users, by name; without rows in a run that is read again.
      items: features of items: training items in their order, then new items.
      taken_new: which new items each user took, (users, new items); None if nobody is known to have
        taken any.
    """

    users: Table | None = None
    items: Table | None = None
    taken_new: Any = None

    @property
    def new_items(self) -> tuple[str, ...]:
        """Items that nobody took in training."""
        if self.items is None:
            return ()
        return self.items.group_names[len(self.vocabulary or ()) :]

    def __getitem__(self, rows: Any) -> Corpus:
        part = super().__getitem__(rows)
        if self.taken_new is None:
            return part
        taken_new = self.taken_new[np.atleast_1d(np.arange(self.num_documents)[rows])]
        return dataclasses.replace(part, taken_new=taken_new)  # type: ignore[call-arg]


def _add_features(
    corpus: Corpus, users: Table | None, items: Table | None, taken_new: Any = None
) -> UsersWithFeatures:
    fields = {field.name: getattr(corpus, field.name) for field in dataclasses.fields(Corpus)}
    if users is not None:
        fields["covariates"] = users.x[_places(users, corpus.titles, USER)]
    return UsersWithFeatures(**fields, users=users, items=items, taken_new=taken_new)


# --- tables ---------------------------------------------------------------------------------------
def _read_features(
    section: RatingData, who: str, names_wanted: Sequence[str] | None = None
) -> Table | None:
    """The features of a table, one row for each user or item by name; None without a table. Only
    the columns `names_wanted`, in their order, or all."""
    path = section.user_features if who == USER else section.item_features
    if path is None:
        return None
    notes = Notes()
    dialect = Dialect(missing_words=section.missing_words)
    name = find_role_column(who, list(read_columns(path, num_rows=1)), path)
    columns = read_columns(path, dialect=dialect, exact=(name,), notes=notes)
    if names_wanted is not None:
        missing = [column for column in names_wanted if column not in columns]
        if missing:
            expected = f"the columns {listed(names_wanted)}, as in training"
            problem = f"{listed(columns)}, without {listed(missing)}"
            raise fail(
                path, expected, problem, "put the columns back; others beside them are not read"
            )
        columns = columns_by_name(columns, [name, *names_wanted])
    table = make_table(columns, Choice(group=name, missing=True), path, notes)
    assert table.origin is not None
    row_name = table.origin.rows.mid_sentence
    bad = np.argwhere(~np.isfinite(table.x))
    if bad.size:
        row, column = bad[0]
        bad_column = table.columns[column]
        problem = f"a missing value in {row_name(row)} of column {bad_column!r} ({len(bad)} such)"
        raise fail(
            path,
            f"a number of each {who}",
            problem,
            f"fill it in, or leave the column or the {who} out",
        )
    if table.num_groups < table.num_rows:
        groups = np.asarray(table.groups)
        first_rows = np.unique(groups, return_index=True)[1]
        row = int(np.setdiff1d(np.arange(len(groups)), first_rows)[0])
        problem = f"{table.group_names[groups[row]]!r} again in {row_name(row)}"
        raise fail(path, f"a row for each {who}", problem, "keep one of these rows")
    return table


def _places(table: Table, names: Sequence[str] | None, who: str) -> np.ndarray:
    """The rows of these users or items; an error names those without a row."""
    source = table.origin.where if table.origin else f"data.{who}_features"
    if names is None:
        raise fail(
            source,
            f"{who}s with names",
            "none in the data",
            "give a table with the columns user and item",
        )
    place = {name: i for i, name in enumerate(table.group_names)}
    unknown = [name for name in names if name not in place]
    if unknown:
        problem = f"none for {listed(unknown)}"
        raise fail(
            source,
            f"a row for each {who} of the data",
            problem,
            f"add rows for them, or leave these {who}s out",
        )
    return np.array([place[name] for name in names], int)


def _standardise(table: Table, rows: np.ndarray) -> Table:
    """The table, with columns of mean 0 and deviation 1 in these rows."""
    return table.standardise(table.rows(rows).standardise().scaling)


def _sort_items(table: Table, names: tuple[str, ...]) -> Table:
    """The rows of these items, then all others."""
    rows = _places(table, names, ITEM)
    return table.rows(np.append(rows, np.setdiff1d(np.arange(table.num_rows), rows)))


# --- the data of a run ----------------------------------------------------------------------------
def load(config: Any) -> Data:
    """Users and items, split, with their tables."""
    data = DOCUMENTS.load(config)
    if not isinstance(data.train, SampledDocuments) and not data.train.num_tokens:
        remedy = "check the columns, and data.least where there are ratings"
        raise fail(config.data.path, "users who took something, in training", "none", remedy)
    users, items = _read_features(config.data, USER), _read_features(config.data, ITEM)
    if users is None and items is None:
        return data
    if isinstance(data.train, SampledDocuments):
        raise ConfigError(
            f"{config.data.path}: more users than are held, and those that are read by parts have "
            f"no features; to hold all of them, set data.sample={data.whole.num_documents}"
        )
    notes = tuple(note for table in (users, items) if table is not None for note in table.notes)
    if users is not None:
        users = _standardise(users, _places(users, data.train.titles, USER))
    if items is not None:
        items = _sort_items(items, data.names)
        items = _standardise(items, np.arange(len(data.names)))
    train, *test = (_add_features(part, users, items) for part in data.parts)
    return Data(dataclasses.replace(train, notes=(*train.notes, *notes)), test[0] if test else None)


def _feature_tables(config: Any, data: Data) -> tuple[Table | None, Table | None]:
    """The features of other users, from the present table of the run, and of the run's items."""
    training = getattr(data.train, "users", None)
    items = getattr(data.train, "items", None)
    if training is None:
        return None, items
    current = _read_features(config.data, USER, training.columns)
    assert current is not None
    if current.columns != training.columns:
        problem = f"other than numbers in {listed(set(training.columns) - set(current.columns))}"
        expected = f"numbers in {listed(training.columns)}, as in training"
        raise fail(config.data.user_features, expected, problem, "write numbers there")
    return current.standardise(training.scaling), items


def other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other users, with their features."""
    return _with_features(config, data, DOCUMENTS.other(config, data, path, column))


def _with_features(config: Any, data: Data, corpus: Corpus, taken_new: Any = None) -> Corpus:
    users, items = _feature_tables(config, data)
    if users is None and items is None:
        return corpus
    return _add_features(corpus, users, items, taken_new)


def _new_users(config: Any, data: Data, source: Any, column: str | None) -> tuple[New, Any]:
    """Users over the items of training, and what they took of the new items, so that it is not
    recommended again. For the run's own users, new items were taken by held-out users only."""
    new_items = getattr(data.train, "new_items", ())
    if not new_items:
        return DOCUMENTS.new(config, data, source, column), None
    names = (*data.names, *new_items)
    wide = Data(Corpus.from_counts(np.ones((1, len(names)), int), names), None)
    new_data = DOCUMENTS.new(config, wide, config.data.path if source is None else source, column)
    counts = new_data.data.to_scipy()
    training_counts = counts[:, : len(data.names)]
    attributes = {
        "titles": new_data.data.titles,
        "texts": new_data.data.texts,
        "notes": new_data.data.notes,
    }
    corpus = Users.from_counts(training_counts, data.names, **attributes)
    return new_data._replace(data=corpus), counts[:, len(data.names) :].tocsr()


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Users to recommend items to. Default: the run's, and those in its table who took nothing."""
    new_data, taken_new = _new_users(config, data, source, column)
    corpus = _with_features(config, data, new_data.data, taken_new)
    if source is not None or not isinstance(corpus, UsersWithFeatures) or corpus.users is None:
        return new_data._replace(data=corpus)
    names = list(corpus.titles or ())
    absent = sorted(set(corpus.users.group_names) - set(names))
    if not absent:
        return new_data._replace(data=corpus)
    indptr = np.append(corpus.indptr, np.full(len(absent), corpus.indptr[-1]))
    covariates = corpus.users.x[_places(corpus.users, [*names, *absent], USER)]
    if corpus.taken_new is not None:
        taken_new = corpus.taken_new.copy()
        taken_new.resize(len(names) + len(absent), taken_new.shape[1])
        corpus = dataclasses.replace(corpus, taken_new=taken_new)
    changes: Any = {
        "indptr": indptr,
        "titles": (*names, *absent),
        "texts": None,
        "covariates": covariates,
    }
    everybody = new_documents(config.listing.source.columns, dataclasses.replace(corpus, **changes))
    return everybody._replace(notes=new_data.notes)


def digest(data: Data) -> Iterator[Any]:
    """The bytes of the data, and of the features of users and items."""
    yield from DOCUMENTS.digest(data)
    for part in data.parts:
        if isinstance(part, UsersWithFeatures) and part.covariates is not None:
            yield np.ascontiguousarray(part.covariates).data
    if isinstance(data.train, UsersWithFeatures) and data.train.items is not None:
        yield np.ascontiguousarray(data.train.items.x[: len(data.names)]).data


def units(data: Data) -> Iterator[Any]:
    """The bytes of the means and scales of the features."""
    for part in data.parts:
        if not isinstance(part, UsersWithFeatures):
            continue
        for table in (part.users, part.items):
            if table is not None:
                yield from scale_bytes(table)


# --- what a run keeps -----------------------------------------------------------------------------
def keep(folder: Path, data: Data) -> None:
    """Writes the words and the features of items; for users only names and scales of features."""
    DOCUMENTS.keep(folder, data)
    arrays: dict[str, np.ndarray] = {}
    for who in (USER, ITEM):
        table = getattr(data.train, f"{who}s", None)
        if table is not None:
            rows = np.arange(table.num_rows if who == ITEM else 0)
            names = np.array([table.group_names[row] for row in rows], str)
            arrays[f"{who}_columns"] = np.array(table.columns)
            arrays[f"{who}_scaling"] = np.stack(table.scaling)
            arrays[f"{who}_x"] = table.x[rows]
            arrays[f"{who}_names"] = names
    if arrays:
        write_arrays(folder / FEATURES, arrays)


def load_stand_in(folder: Path) -> Data | None:
    """The stand-in of documents, with the features of items."""
    words = DOCUMENTS.kept(folder)
    path = folder / FEATURES
    if words is None or not path.exists():
        return words
    try:
        arrays = load_arrays(path)
        users, items = (_to_table(arrays, who) for who in (USER, ITEM))
    except (DataError, KeyError, ValueError) as error:
        raise DamagedError(
            f"{path}: damaged ({error})", f"write it again: vijax resume {quote(folder)}"
        ) from error
    if users is not None:
        covariates = np.zeros((1, len(users.columns)))
        words = Data(dataclasses.replace(words.train, covariates=covariates), None)
    fields = {field.name: getattr(words.train, field.name) for field in dataclasses.fields(Corpus)}
    return Data(UsersWithFeatures(**fields, users=users, items=items), None)


def _to_table(arrays: Mapping[str, np.ndarray], who: str) -> Table | None:
    if f"{who}_columns" not in arrays:
        return None
    columns, names = (tuple(map(str, arrays[f"{who}_{name}"])) for name in ("columns", "names"))
    scaling = Scaling(*arrays[f"{who}_scaling"])
    return Table(
        columns,
        arrays[f"{who}_x"],
        group=who,
        groups=np.arange(len(names)),
        group_names=names,
        scaling=scaling,
    )


RATINGS = DOCUMENTS._replace(
    section=RatingData,
    load=load,
    other=other,
    new=new,
    digest=digest,
    keep=keep,
    kept_files=(*DOCUMENTS.kept_files, FEATURES),
    kept=load_stand_in,
    units=units,
)
