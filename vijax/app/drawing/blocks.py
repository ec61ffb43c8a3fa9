"""Blocks, the parts of a page on a fitted model: plain numbers that fit into JSON.

A listing makes blocks and draws nothing. Each kind of block is drawn on the page
(`vijax.app.drawing.charts`), as a picture (`vijax.app.drawing.figures`) and, if it has words or
numbers to read, on the screen (`text`).
"""

from __future__ import annotations

import functools
import math
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.app.drawing.digits import is_number, round_to_spread, row_spreads, value_range
from vijax.numerals import align_numbers, format_number
from vijax.terminal import printable

Numbers = Sequence[float] | np.ndarray
Values = Sequence[Sequence[float]] | np.ndarray


class Table(NamedTuple):
    """Rows of words and numbers."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


class Lines(NamedTuple):
    """A curve with a band around it (if `low` and `high` are given), and points."""

    title: str
    x_label: str
    y_label: str
    x: Numbers
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    points_x: Numbers = ()
    points_y: Numbers = ()
    note: str = ""


class Curves(NamedTuple):
    """Curves over one axis, each in its own panel, with a band around it where its ends are known:
    a row for each panel."""

    title: str
    x_label: str
    names: Sequence[str]
    x: Numbers
    values: Values
    lowest: Values
    highest: Values
    note: str = ""


class Scatter(NamedTuple):
    """Points in the plane, coloured by class, and outlines (class, x, y) around them. Classes have
    `names`, or else their numbers."""

    title: str
    x_label: str
    y_label: str
    x: Numbers
    y: Numbers
    classes: Sequence[int] | np.ndarray
    outlines: Sequence[tuple[int, Numbers, Numbers]] = ()
    note: str = ""
    names: Sequence[str] = ()


TITLE_OF_VERDICT = "Verdict"
TITLE_OF_MEASURES = "On held-out rows"
TITLE_OF_QUALITY = "Is it any good?"
TITLE_OF_HIDDEN = "Hidden items that are found"
TITLE_OF_EDIT = "Before the edit"
"""Titles of the blocks that say how good a fit is."""
NINETY = 1.644854
"""Standard deviations on either side of the central 90 % of a normal law: as on pages."""
BARS = "Bars are 90 % intervals."


class Intervals(NamedTuple):
    """A quantity for each row, with its standard deviation; drawn with its 90 % interval. The
    screen shows the first `most` rows; 0 if a table beside it has them."""

    title: str
    labels: Sequence[str]
    mean: Numbers
    deviation: Numbers
    note: str = ""
    most: int = 40


class Heat(NamedTuple):
    """A matrix as colours. If the diagonal is special (correlations, the probability of staying in
    a state), it has no colour and does not set the scale of the others."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Values
    note: str = ""
    apart: bool = False


class Arcs(NamedTuple):
    """A graph: nodes in a row, and pairs of them (places and a weight) joined by arcs."""

    title: str
    names: Sequence[str]
    edges: Sequence[tuple[int, int, float]]
    note: str = ""


class Tree(NamedTuple):
    """A tree: its leaves in the order in which they are drawn, and its joins from the leaves to the
    root, as pairs of leaves, counted from 0, or of earlier joins, counted on, with a height."""

    title: str
    names: Sequence[str]
    joins: Sequence[tuple[int, int, float]]
    note: str = ""
    unit: str = ""


class Strips(NamedTuple):
    """Sequences of states, one below the other; -1 after the end of a sequence."""

    title: str
    labels: Sequence[str]
    states: Sequence[Sequence[int]] | np.ndarray
    note: str = ""


class Course(NamedTuple):
    """One sequence: columns by step, the most probable path of its states, and probabilities of the
    states by step. `x` are the times of the steps; without them they are numbered."""

    title: str
    columns: Sequence[str]
    values: Values
    states: Sequence[int] | np.ndarray
    probabilities: Values
    note: str = ""
    x_label: str = "step"
    x: Numbers = ()


def step_edges(block: Course) -> np.ndarray:
    """The places at which steps begin, and the end of the last step.

    >>> step_edges(Course("c", [], [], [0, 0, 1], [])).tolist()
    [0.0, 1.0, 2.0, 3.0]
    >>> step_edges(Course("c", [], [], [0, 0, 1], [], x=[1990.0, 1990.5, 1991.5])).tolist()
    [1990.0, 1990.5, 1991.5, 1992.25]
    """
    steps = len(block.states)
    x = as_numbers(block.x)
    is_usable = len(x) == steps > 0 and np.isfinite(x).all() and not np.any(np.diff(x) < 0)
    if not is_usable or x[0] == x[-1]:
        return np.arange(max(steps, 1) + 1, dtype=float)
    return np.append(x, x[-1] + np.median(np.diff(x)))


def brackets(
    block: Tree,
) -> list[tuple[tuple[float, float], tuple[float, float], float]]:
    """For each join the height and the place of its two parts, and its own height."""
    places: list[tuple[float, float]] = [(0.0, float(i)) for i in range(len(block.names))]
    parts = []
    for first, second, height in block.joins:
        parts.append((places[first], places[second], height))
        places.append((height, 0.5 * (places[first][1] + places[second][1])))
    return parts


class Images(NamedTuple):
    """Grey images of one size, in rows with labels: `images[row][place]` is an image as a flat list
    of its pixels, from the top left, row by row. The lowest value of all is light, the highest
    dark."""

    title: str
    labels: Sequence[str]
    images: Sequence[Sequence[Numbers]]
    height: int
    width: int
    note: str = ""


class Topics(NamedTuple):
    """Topics (`vijax.topics.summary.Topic`), and their distances in the order of their numbers."""

    title: str
    topics: Sequence[Any]
    distances: Values
    note: str = ""


Block = (
    Table
    | Lines
    | Curves
    | Scatter
    | Intervals
    | Heat
    | Arcs
    | Tree
    | Strips
    | Course
    | Images
    | Topics
)
KINDS: dict[str, Any] = {kind.__name__: kind for kind in typing.get_args(Block)}


MOST_COLOURS = 10
"""Number of classes with different colours; more classes have no legend."""


def make_legend(classes: Iterable[int], names: Sequence[str] = ()) -> dict[int, str]:
    """The names of the classes that occur, in order; none for a single class, or if there are not
    enough colours.

    >>> make_legend([2, 0, 2], ["low", "", "high"]), make_legend([1, 1]), make_legend([0, 1])
    ({0: 'low', 2: 'high'}, {}, {0: '0', 1: '1'})
    """
    occurring = sorted({int(k) for k in classes})
    if not 2 <= len(occurring) <= MOST_COLOURS:
        return {}
    return {k: str(names[k]) if k < len(names) else str(k) for k in occurring}


LONGEST_NAME = 60
LARGEST_IMAGE = 4096
SHOWN = 6
"""Places of a curve that the screen shows."""
SHOWN_AHEAD = 8
"""Steps of a forecast that the screen shows."""


def scatter_legend(block: Scatter) -> dict[int, str]:
    """The legend of points and outlines."""
    return make_legend([*block.classes, *(k for k, _, _ in block.outlines)], block.names)


def file_name(block: Block) -> str:
    """The file name of a block, without its ending: its title in small letters.

    >>> file_name(Table("Classes of held-out rows", [], []))
    'classes_of_held_out_rows'
    """
    name = re.sub(r"\W+", "_", block.title.lower()).strip("_")[:LONGEST_NAME]
    return name or type(block).__name__.lower()


as_numbers = functools.partial(np.asarray, dtype=float)
"""Numbers as an array; None in JSON becomes NaN."""


def heat_colours(block: Heat) -> np.ndarray:
    """The values that have a colour: NaN if missing, and on a special diagonal.

    >>> heat_colours(Heat("", ["a", "b"], ["a", "b"], [[1.0, 0.5], [None, 1.0]], "", True)).tolist()
    [[nan, 0.5], [nan, nan]]
    """
    values = as_numbers(block.values)
    values = np.where(np.isfinite(values), values, np.nan)
    if block.apart:
        np.fill_diagonal(values, np.nan)
    return values


def values_in_view(block: Lines) -> list[float]:
    """The values on the vertical axis of a curve: points and curve, and a band of the usual width;
    of ends that are far wider only a part."""
    parts = map(as_numbers, (block.y, block.low, block.high, block.points_y))
    y, low, high, points = (part[np.isfinite(part)] for part in parts)
    core = np.concatenate([y, points])
    if len(core):
        reach = 2.0 * float(np.ptp(core)) or 1.0
        if len(low) and len(high):
            reach = max(reach, float(np.median(high) - np.median(low)))
        low = np.maximum(low, core.min() - reach)
        high = np.minimum(high, core.max() + reach)
    return [*core, *low, *high]


def pixel_range(block: Images) -> tuple[float, float]:
    """The lowest and highest finite pixel of all, or a default range."""
    pixels = as_numbers([v for row in block.images for image in row for v in image])
    pixels = pixels[np.isfinite(pixels)]
    if not len(pixels):
        return 0.0, 1.0
    low, high = float(pixels.min()), float(pixels.max())
    return low, high if high > low else low + 1.0


def drop_excerpts(blocks: Iterable[Block]) -> list[Block]:
    """Blocks without the beginnings of documents."""
    bare_blocks: list[Block] = []
    for block in blocks:
        if isinstance(block, Topics):
            block = block._replace(topics=[*map(_without_excerpts, block.topics)])
        bare_blocks.append(block)
    return bare_blocks


def _without_excerpts(topic: Any) -> Any:
    documents = (document._replace(excerpt="") for document in topic.documents)
    return topic._replace(documents=tuple(documents))


# --- JSON -----------------------------------------------------------------------------------------
def to_json(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    """Blocks as JSON's own types, numbers to six digits, or more if their spread needs them."""
    records = []
    for block in blocks:
        fields = {name: _plain(value) for name, value in round_fields(block).items()}
        records.append({"kind": type(block).__name__, **fields})
    return records


def round_fields(block: Block) -> dict[str, Any]:
    """The fields of a block, numbers rounded as in files."""
    fields: dict[str, Any] = block._asdict()
    if isinstance(block, Table):
        rows = [_round_row(row, row_spreads(block.header, row)) for row in block.rows]
        return fields | {"rows": rows}
    if isinstance(block, Intervals):
        spreads = [d if d is not None and np.isfinite(d) else 0.0 for d in block.deviation]
        mean = _round_row(block.mean, spreads)
        return fields | {"mean": mean, "deviation": _round_row(block.deviation, spreads)}
    for name, value in fields.items():
        if isinstance(value, np.ndarray | list | tuple):
            fields[name] = _round(value, value_range(value))
    return fields


def _round_row(row: Iterable[Any], spreads: Iterable[float]) -> list[Any]:
    return [_round(cell, spread) for cell, spread in zip(row, spreads, strict=True)]


def _round(value: Any, spread: float) -> Any:
    """A number, or nested lists of numbers, rounded; other values unchanged."""
    if isinstance(value, np.ndarray):
        return _round(value.tolist(), spread)
    if type(value) in (list, tuple):
        return [_round(item, spread) for item in value]
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return None
        return round_to_spread(float(value), spread)
    return value


def from_json(records: Iterable[dict[str, Any]]) -> list[Block]:
    """Blocks from JSON: each kind with its own fields, text as text and numbers as numbers,
    whatever the file holds."""
    return [_block(record) for record in records]


def _block(record: dict[str, Any]) -> Block:
    kind = KINDS[record["kind"]]
    readers = READERS | OWN_READERS.get(record["kind"], {})
    fields = {name: value for name, value in record.items() if name in kind._fields}
    block = kind(**{name: readers[name](value) for name, value in fields.items()})
    for rows, number, width in _shapes(block):
        if len(rows) != number or any(len(row) != width for row in rows):
            raise ValueError(f"rows of {block.title!r} are not of one length")
    if isinstance(block, Arcs):
        ends = [end for *pair, _ in block.edges for end in pair]
        if not all(0 <= end < len(block.names) for end in ends):
            raise ValueError(f"edges of {block.title!r} end at nothing")
    if isinstance(block, Tree) and not _is_tree(block):
        raise ValueError(f"joins of {block.title!r} are not those of a tree")
    if isinstance(block, Topics):
        numbers = sorted(topic.number for topic in block.topics)
        if numbers != list(range(len(block.topics))):
            raise ValueError(f"topics of {block.title!r} are not numbered from 0 on")
    return block


def _is_tree(block: Tree) -> bool:
    """True if the joins join all leaves, each leaf and join once and after it was made."""
    number = len(block.names)
    ends = [end for *pair, _ in block.joins for end in pair]
    are_made = all(
        0 <= end < number + step for step, (*pair, _) in enumerate(block.joins) for end in pair
    )
    return are_made and sorted(ends) == list(range(2 * number - 2)) and number >= 2


def _shapes(block: Block) -> list[tuple[Any, int, int]]:
    """Nested lists of a block, their number, and the length of each."""
    if isinstance(block, Table):
        return [(block.rows, len(block.rows), len(block.header))]
    if isinstance(block, Curves):
        return [
            (rows, len(block.names), len(block.x))
            for rows in (block.values, block.lowest, block.highest)
        ]
    if isinstance(block, Heat):
        return [(block.values, len(block.rows), len(block.columns))]
    if isinstance(block, Course):
        steps = len(block.states)
        times = [([block.x], 1, steps)] if len(block.x) else []
        return [
            (block.values, len(block.columns), steps),
            (block.probabilities, len(block.probabilities), steps),
            *times,
        ]
    if isinstance(block, Images):
        size = _side(block.height) * _side(block.width)
        longest = max(map(len, block.images), default=0)
        rows = [(row, len(row), size) for row in block.images]
        return [(block.images, len(block.labels), longest), *rows]
    if isinstance(block, Topics):
        words = [
            ((topic.words, topic.probabilities), 2, len(topic.words)) for topic in block.topics
        ]
        return [(block.distances, len(block.topics), len(block.topics)), *words]
    return []


def _side(value: int) -> int:
    if not 1 <= value <= LARGEST_IMAGE:
        raise ValueError(f"an image of {value} pixels a side")
    return value


def _number(value: Any) -> float | None:
    """A number that can be drawn: half the exponents of float64 leave room for the charts."""
    if value is None or not abs(float(value)) < 1e150:
        return None
    return float(value)


def _list_of(read: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [read(value) for value in values]


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, int | float | str):
        return value
    return str(value)


def _outline(value: Any) -> tuple[int, list[Any], list[Any]]:
    k, x, y = value
    return int(k), _numbers(x), _numbers(y)


def _edge(value: Any) -> tuple[int, int, float]:
    start, end, weight = value
    return int(start), int(end), _number(weight) or 0.0


def _topic(value: Any) -> Any:
    from vijax.topics.summary import Document, Topic

    number, share, words, probabilities, (x, y), documents, coherence, _ = value
    coherence = _number(coherence)
    return Topic(
        number=int(number),
        share=float(share or 0.0),
        words=tuple(map(str, words)),
        probabilities=tuple(float(p or 0.0) for p in probabilities),
        position=(float(x or 0.0), float(y or 0.0)),
        documents=tuple(
            Document(str(title), str(excerpt), float(part or 0.0))
            for title, excerpt, part in documents
        ),
        coherence=math.nan if coherence is None else coherence,
    )


_numbers, _texts = _list_of(_number), _list_of(str)
READERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("title", "note", "x_label", "y_label"), str),
    **dict.fromkeys(("header", "labels", "columns", "names"), _texts),
    **dict.fromkeys(
        ("x", "y", "low", "high", "points_x", "points_y", "mean", "deviation"), _numbers
    ),
    "classes": _list_of(int),
    "outlines": _list_of(_outline),
    "most": int,
    "apart": bool,
    **dict.fromkeys(("values", "lowest", "highest"), _list_of(_numbers)),
    "edges": _list_of(_edge),
    "joins": _list_of(_edge),
    "unit": str,
    "probabilities": _list_of(_numbers),
    "distances": _list_of(_numbers),
    "states": _list_of(_list_of(int)),
    "images": _list_of(_list_of(_numbers)),
    "height": int,
    "width": int,
    "topics": _list_of(_topic),
}
"""The readers of fields from JSON."""
OWN_READERS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "Table": {"rows": _list_of(_list_of(_cell))},
    "Heat": {"rows": _texts},
    "Course": {"states": _list_of(int)},
}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value


# --- the screen -----------------------------------------------------------------------------------
def text(blocks: Iterable[Block], most: int = 40, folder: str = "") -> str:
    """The blocks that can be read without pictures. Long tables have their first rows, and the
    number of other rows, which are in files in `folder`."""
    parts = [_text(block, most, folder) for block in blocks]
    return printable("\n\n".join(part for part in parts if part))


def _text(block: Block, most: int, folder: str) -> str:
    csv_hint = f": {folder}{file_name(block)}.csv has all" if folder else ""
    if isinstance(block, Table):
        note = f"\n  {block.note}" if block.note else ""
        return f"{block.title}\n{_align(block.header, block.rows, most, csv_hint)}{note}"
    if isinstance(block, Intervals) and block.most > 0:
        interval_rows = list(zip(block.labels, block.mean, block.deviation, strict=True))
        most = min(most, block.most)
        lines = _align(["", "mean", "deviation"], interval_rows, most, csv_hint)
        return f"{block.title}\n{lines}"
    if isinstance(block, Curves):
        return f"{block.title}\n{_align(*_places(block), most)}\n  {block.note}"
    if isinstance(block, Heat) and len(block.columns) <= 12:
        rows = [[label, *row] for label, row in zip(block.rows, block.values, strict=True)]
        return f"{block.title}\n{_align(['', *block.columns], rows, most, csv_hint)}"
    if isinstance(block, Topics):
        from vijax.topics.summary import topics_text

        return topics_text(block.topics)
    return ""


def _places(block: Curves) -> tuple[list[str], list[list[Any]]]:
    """Values, with their bands, at some of the places where the band is known; for a forecast the
    first steps, which show a season."""
    known_places = np.flatnonzero(np.isfinite(as_numbers(block.lowest)).all(axis=0))
    is_forecast = 0 < len(known_places) < len(block.x)
    even = np.unique(
        np.linspace(0, len(known_places) - 1, min(SHOWN, len(known_places))).astype(int)
    )
    places = known_places[:SHOWN_AHEAD] if is_forecast else known_places[even]
    parts = (as_numbers(part) for part in (block.values, block.lowest, block.highest))
    rows = []
    for name, values, low, high in zip(block.names, *parts, strict=True):
        rows += [[name, *values[places]], ["  from", *low[places]], ["  to", *high[places]]]
    x = as_numbers(block.x)[places]
    if block.x_label.endswith(IN_YEARS):
        return [block.x_label.removesuffix(IN_YEARS), *_dates(x)], rows
    return [block.x_label, *_marks(x)], rows


IN_YEARS = ", years"
"""The end of the name of an axis of years and parts of years."""


def _dates(x: np.ndarray) -> list[str]:
    """Years and parts of years as dates: years, months, or days.

    >>> _dates(np.array([2016.0, 2016.083])), _dates(np.array([1999.0, 2001.0]))
    (['2016-01', '2016-02'], ['1999', '2001'])
    >>> _dates(1970 + np.array([18262, 18269]) / 365.25)
    ['2020-01-01', '2020-01-08']
    """
    if np.allclose(x, np.round(x), rtol=0, atol=1e-6):
        return [f"{year:.0f}" for year in x]
    months = 12 * (x - 1970)
    if np.allclose(months, np.round(months), rtol=0, atol=0.02):  # numbers in files are rounded
        return [str(np.datetime64(int(month), "M")) for month in np.round(months)]
    days = np.round(365.25 * (x - 1970)).astype(int)
    return [str(np.datetime64(int(day), "D")) for day in days]


def _marks(x: np.ndarray) -> list[str]:
    """Places on an axis, with as many decimals as tell them apart; steps without commas.

    >>> _marks(np.array([0.0, 0.25, 0.5])), _marks(np.array([60.0, 63.0]))
    (['0.00', '0.25', '0.50'], ['60', '63'])
    """
    is_exact = lambda n: np.allclose(x, np.round(x, n), rtol=0, atol=10.0 ** -(n + 2))
    decimals = next(filter(is_exact, range(6)), 6)
    return [f"{value:.{decimals}f}" for value in x]


def show_number(value: Any, spread: float = 0.0) -> str:
    """A value for reading: four digits of a number, or more if its spread needs them.

    >>> show_number(0.123456), show_number(7), show_number(None), show_number("a")
    ('0.1235', '7', '', 'a')
    >>> show_number(-1234567.0), show_number(2e222)
    ('-1,234,567', '2e+222')
    >>> show_number(2_020_000.0123, 0.097)
    '2,020,000.012'
    """
    if value is None or value != value:  # None in JSON, or NaN
        return ""
    if isinstance(value, float):  # NumPy's float64 is one
        return format_number(value, spread, ",")
    return str(value)


def show_rows(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The cells of a table for reading, with digits as from `show_number`; the numbers of a column
    have the decimals of its largest one, and three digits each.

    >>> show_rows(["", "x"], [["a", 2.495], ["b", -0.00419], ["c", 0.5]])
    [['a', '2.495'], ['b', '-0.00419'], ['c', '0.500']]
    """
    spreads = [row_spreads(header, row) for row in rows]
    columns = []
    for i in range(len(header)):
        cells = [row[i] for row in rows]
        columns.append(_show_column(cells, [spread[i] for spread in spreads]))
    return [list(row) for row in zip(*columns, strict=True)]


def _show_column(cells: Sequence[Any], spreads: Sequence[float]) -> list[str]:
    """The texts of a column of a table."""
    texts = [show_number(cell, spread) for cell, spread in zip(cells, spreads, strict=True)]
    if all(cell == round(cell) for cell in cells if isinstance(cell, float) and is_number(cell)):
        return texts
    return align_numbers(texts, cells, spreads)


def _align(
    header: Sequence[str], rows: Sequence[Sequence[Any]], most: int, csv_hint: str = ""
) -> str:
    lines = show_rows(header, rows)[:most]
    widths = [max(len(line[i]) for line in [list(header), *lines]) for i in range(len(header))]
    numeric = [all(not isinstance(row[i], str) for row in rows) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = []
        for cell, width, is_numeric in zip(cells, widths, numeric, strict=True):
            padded.append(cell.rjust(width) if is_numeric else cell.ljust(width))
        return "  " + "  ".join(padded).rstrip()

    text_lines = [*map(line, lines)]
    if any(header):
        text_lines.insert(0, line(header))
    if len(rows) > most:
        text_lines.append(f"  ... and {len(rows) - most:,} more{csv_hint}")
    return "\n".join(text_lines)
