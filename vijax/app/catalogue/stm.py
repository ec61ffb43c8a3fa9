"""Topics with covariates on the command line: documents with the columns beside their text."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.catalogue.topics import OF_DOCUMENTS, CtmAlgorithm, correlations, of_shares, topics_block
from vijax.app.kinds.documents import DOCUMENTS, columns_of
from vijax.app.kinds.listing import Data, Found, Listing, New, Seen, Tell
from vijax.app.kinds.topic_names import SEEDED, build_seeded
from vijax.app.page import blocks
from vijax.app.page.blocks import Block, Curves, Intervals, Table
from vijax.app.progress import Counter
from vijax.app.settings.options import given, model_section
from vijax.app.settings.typed_toml import setting
from vijax.data.corpora.corpus import Corpus, split_ids
from vijax.data.tables.columns import Columns, column_of
from vijax.evaluate import frex
from vijax.models.structural.covariates import Covariates
from vijax.models.structural.effects import Effects
from vijax.models.structural.stm import Stm, stm

Settings = model_section(
    stm,
    "topics with covariates (structural topic model)",
    without=("corpus", "table", "seed"),
    num_topics=20,
    prevalence=(str, setting("~ 1", 'covariates of the shares, as "~ party + bs(day, df=4)"')),
    **SEEDED,
)
NUM_WORDS = 8
"""Words of a topic that are named by group."""
LEAST_VALUES, NUM_PLACES = 5, 41
"""Different numbers of a column along which shares are drawn, at least; places where they are."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Described(Corpus):
    """Documents with the columns beside their text."""

    beside: Columns = dataclasses.field(default_factory=dict)

    def __getitem__(self, rows: Any) -> Corpus:
        kept = {name: values[rows] for name, values in self.beside.items()}
        return dataclasses.replace(super().__getitem__(rows), beside=kept)  # type: ignore[call-arg]


def _described(corpus: Corpus, found: Mapping[str, Sequence[Any]], covariates: Covariates) -> Described:
    """The documents with these columns and the covariates made of them."""
    beside = {name: _typed(values) for name, values in found.items()}
    corpus = covariates.of(corpus, _table(corpus, beside))
    return Described(**{field.name: getattr(corpus, field.name) for field in dataclasses.fields(Corpus)}, beside=beside)


def _typed(values: Sequence[Any]) -> np.ndarray:
    """A column as numbers where all of it is numbers, else as text."""
    return np.asarray(column_of(["" if value is None else str(value) for value in values]))


def _table(corpus: Corpus, beside: Columns) -> dict[str, Any]:
    return dict(beside) or {"document": np.arange(corpus.num_documents)}


# --- data ------------------------------------------------------------------------------------------------------------
def load(config: Any) -> Data:
    """The documents, split, with columns and covariates."""
    found = DOCUMENTS.load(config)
    parts = _columns_of_parts(config.data, found)
    typed = {name: _typed(values) for name, values in parts[0].items()}
    covariates = Covariates.read(config.model.prevalence, config.model.content, _table(found.train, typed))
    train, *test = (_described(*both, covariates) for both in zip(found.parts, parts, strict=True))
    return Data(train, test[0] if test else None)


def _columns_of_parts(section: Any, data: Data) -> list[Mapping[str, Sequence[Any]]]:
    if section.path == "docstrings":
        return [columns_of(section, part) for part in data.parts]
    found = columns_of(section, data.train)
    number = sum(part.num_documents for part in data.parts)
    rows = [np.arange(number)] if data.test is None else split_ids(number, section.held_out, section.split_seed)
    return [{name: [values[i] for i in own.tolist()] for name, values in found.items()} for own in rows]


def other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other documents, with their columns."""
    return new(config, data, path, column).data


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Documents to infer the topics of, with the columns beside their text."""
    found = DOCUMENTS.new(config, data, source, column)
    beside = {name: values for name, values in found.beside.items() if name not in ("document", "words")}
    return found._replace(data=_described(found.data, beside, of_corpus(config.model, data.train).covariates))


def digest(data: Data) -> Iterator[Any]:
    """The bytes of documents and covariates."""
    yield from DOCUMENTS.digest(data)
    for part in data.parts:
        yield np.ascontiguousarray(part.covariates).data


SOURCE = DOCUMENTS._replace(load=load, other=other, new=new, digest=digest)


# --- the model -------------------------------------------------------------------------------------------------------
def of_corpus(settings: Any, corpus: Described) -> Stm:
    """The model of documents."""
    return _remembered(settings, corpus, jnp.result_type(float))


@functools.lru_cache(maxsize=2)
def _remembered(settings: Any, corpus: Described, dtype: Any) -> Stm:
    make: Any = lambda settings, data: stm(
        corpus=corpus, table=_table(corpus, corpus.beside), prevalence=settings.prevalence, **given(settings)
    )
    return build_seeded(settings, Data(corpus, None), make)


def describe(seen: Seen) -> list[Block]:
    """The topics; effects of the covariates on their shares; words by group; which topics go together."""
    model = of_corpus(seen.settings, seen.data.train)
    topics = topics_block(seen, lambda sample, rows: seen.fit.transform(model.data[rows], key=seen.key))
    called = {topic.number: topic.called for topic in topics.topics}
    shown: list[Block] = [topics, *_effects(model, seen, called)]
    if model.covariates.groups:
        shown.append(_words_by_group(model, seen, called))
    return [*shown, *correlations(seen, topics)]


def _effects(model: Stm, seen: Seen, called: Mapping[int, str]) -> Iterator[Block]:
    """Shares along columns of numbers; then a table and a drawing of each column's effects. Those of splines are left
    out: they mean nothing by themselves."""
    told = Counter(seen.say, "sweeps for the effects of covariates")
    effects, names, order = model.effects(seen.fit, key=seen.key, callback=told), list(called.values()), list(called)
    each = [x[order] for x in (effects.mean, effects.sd, effects.low, effects.high)]
    by = f"On the share of each topic, by {effects.design.formula.partition('~')[2].strip()}."
    note = " ".join([by, *effects.notes])  # once
    for block in _curves(effects, seen.data.train.beside, called):
        yield block._replace(note=f"{block.note} {note}")
        note = by
    for j, (label, is_category) in enumerate(zip(effects.labels, effects.design.categorical, strict=True)):
        if label == "Intercept" or (label.endswith("]") and not is_category):
            continue
        rows = [[name, *map(float, numbers)] for name, *numbers in zip(names, *(x[:, j] for x in each), strict=True)]
        yield Table(f"Effect of {label}", ["", "mean", "sd", "5 %", "95 %"], rows, note)
        yield Intervals(f"Effect of {label}, drawn", names, each[0][:, j], each[1][:, j], "Bars reach two sds.", 0)
        note = by


def _curves(effects: Effects, beside: Columns, called: Mapping[int, str]) -> Iterator[Curves]:
    """The shares of topics along each column of numbers that the formula names, the others held."""
    columns = {name: np.asarray(values) for name, values in beside.items()}
    named = [name for name in columns if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", effects.design.formula)]
    held = {name: _middle(values) for name, values in columns.items()}
    for name in named:
        values = columns[name]
        if values.dtype.kind not in "iuf" or len(np.unique(values)) < LEAST_VALUES:
            continue
        x = np.linspace(values.min(), values.max(), NUM_PLACES)
        places = {other: x if other == name else np.repeat(held[other], len(x)) for other in columns}
        found = effects.at(places)
        mean, low, high = (part[list(called)] for part in (found.mean, found.low, found.high))
        others = ", ".join(f"{other} = {blocks.number(held[other].item())}" for other in named if other != name)
        note = f"Expected shares, with 90 % intervals{f'; {others}' if others else ''}."
        if moved := effects.outside(places):
            note += (
                f" {max(100 * moved, 1):.0f} % of the draws of the regression were below 0 or above 1 for some topic: "
                "they are moved to the nearest shares that are not, and add up to one."
            )
        yield Curves(f"Shares along {name}", name, list(called.values()), x, mean, low, high, note)


def _middle(values: np.ndarray) -> Any:
    """The median of numbers, the most frequent text."""
    if values.dtype.kind in "iuf":
        return np.median(values)
    found, counts = np.unique(values.astype(str), return_counts=True)
    return found[counts.argmax()]


def _words_by_group(model: Stm, seen: Seen, called: Mapping[int, str]) -> Table:
    """The words that are frequent in a topic and exclusive to a group, of each topic and group."""
    words, names = model.words(seen.fit), seen.data.names
    rows = []
    for k in called:
        leading = np.argsort(-frex(words[:, k]), axis=1, kind="stable")[:, :NUM_WORDS]
        rows.append([called[k], *(" ".join(names[v] for v in own) for own in leading)])
    return Table(f"Words by {model.covariates.content}", ["", *model.covariates.groups], rows)


def transform(seen: Seen, corpus: Any, tell: Tell) -> Found:
    """The topics of documents: the largest of each, and the shares of all."""
    return of_shares(seen.fit.transform(corpus, key=seen.key, progress=tell))


LISTING = Listing(
    Settings,
    SOURCE,
    CtmAlgorithm,
    describe,
    build=lambda settings, data: of_corpus(settings, data.train),
    transform=transform,
    needs_rows=True,
    **OF_DOCUMENTS,
)
