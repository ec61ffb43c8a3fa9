"""Blocks of a page: kept as JSON, read on the screen, drawn as SVG and as figures."""

import io
import itertools
import json
import math
import re
import urllib.parse
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tests.naming import check_names
from vijax.app.catalogue.parts import emissions
from vijax.app.drawing import blocks, charts, exports, figures, svg
from vijax.app.drawing.views import Plane, histogram, scatter
from vijax.data.tables.table import Table
from vijax.topics.summary import Document, summarise

CIRCLE = np.linspace(0, 2 * np.pi, 9)
EXAMPLES = [
    blocks.Table(
        "Some <b>rows</b>",
        ["", "size", "what"],
        [[0, 0.5, "a & b"], [1, float("nan"), "c"]],
        "A note.",
    ),
    blocks.Lines(
        "Line",
        "t",
        "y",
        [0.0, 1.0, 2.0],
        [1.0, 3.0, 2.0],
        [0.0, 2.0, 1.0],
        [2.0, 400.0, 3.0],
        [0.5],
        [2.5],
    ),
    blocks.Lines("Bare", "t", "y", np.array([0.0, 1.0]), np.array([1.0, 1.0])),
    blocks.Scatter(
        "Points",
        "x1",
        "x2",
        [0.0, 1.0],
        [2.0, -1.0],
        [0, 12],
        [(0, np.cos(CIRCLE), np.sin(CIRCLE))],
    ),
    blocks.Intervals("Bars", ["a", "b" * 40], [1.0, -2.0], [0.1, 0.0]),
    blocks.Heat(
        "Matrix", ["r0", "r1"], ["c0", "c1", "c2"], np.array([[0.5, -1.0, 0.0], [2.0, np.nan, 1.0]])
    ),
    blocks.Strips("Paths", ["s"], [[0, 0, 1, -1]]),
    blocks.Heat("Apart", ["a", "b"], ["a", "b"], [[1.0, 0.2], [0.2, 1.0]], "", True),
    blocks.Course(
        "Course",
        ["x", "y"],
        [[0.0, 1.0, np.nan], [5.0, 5.0, 5.0]],
        [0, 0, 1],
        [[0.9, 0.8, 0.1], [0.1, 0.2, 0.9]],
    ),
    blocks.Curves(
        "Shares",
        "day",
        ["a", "b & c"],
        [0.0, 1.0, 2.0],
        *[[[0.0, 1.0, 2.0], [5.0, 4.0, np.nan]]] * 3,
        "A note.",
    ),
    blocks.Arcs("Pairs", ["a", "b", "c"], [(0, 2, 0.5), (1, 2, 0.25)]),
    blocks.Tree("Joined", ["a", "b", "c"], [(0, 2, 0.25), (1, 3, 0.5)], "", "nats"),
    blocks.Images("Digits", ["data", "rebuilt"], [[[0.0, 1.0, 0.5, 0.5, 0.0, 1.0]]] * 2, 2, 3),
]


UNKNOWN = [  # of a posterior that is not finite
    blocks.Table("None", ["n"], [[float("nan")]]),
    blocks.Lines(
        "None",
        "t",
        "y",
        [0.0, 1.0],
        [np.nan, np.nan],
        [np.nan, np.nan],
        [np.inf, np.nan],
        [0.5],
        [np.nan],
    ),
    blocks.Scatter(
        "None", "x1", "x2", [np.nan, 1.0], [2.0, np.inf], [0, 1], [(0, [np.nan], [np.nan])]
    ),
    blocks.Intervals("None", ["a", "b"], [np.nan, 1.0], [0.1, np.nan]),
    blocks.Heat("None", ["r"], ["c"], [[np.nan]]),
    blocks.Images("None", ["r"], [[[np.nan, np.nan]]], 1, 2),
    blocks.Course("None", ["x"], [[np.nan, np.nan]], [0, 1], [[np.nan, np.nan], [np.nan, 1.0]]),
    blocks.Heat("None", ["r"], ["c"], [[1.0]], "", True),
    blocks.Curves("None", "t", ["a"], [0.0, 1.0], *[[[np.nan, np.nan]]] * 3),
    blocks.Arcs("None", ["a"], []),
]


class Closed(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "block", EXAMPLES + UNKNOWN, ids=lambda block: f"{type(block).__name__} {block.title}"
)
def test_a_block_is_drawn_also_after_json(block):
    again = blocks.from_json(json.loads(json.dumps(blocks.to_json([block]), allow_nan=False)))[0]
    assert type(again) is type(block)
    for shown in (block, again):
        page = charts.card(shown)
        parser = Closed()
        parser.feed(page)
        assert parser.open == []
        assert not re.search(r"\b(nan|inf)\b", page)
        assert "<b>" not in page
        for _, figure in figures.pictures([shown]):
            file = io.BytesIO()
            figure.savefig(file, format="png")
            assert file.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "text", ["$100$", "$\\frac{$", "a_$b$", "cut \ud83d", "\x1b[31m", "x" * 500, ""]
)
def test_a_picture_takes_any_text(text):
    """A pair of dollars is a formula to Matplotlib, and half a surrogate pair an error."""
    for block in (
        blocks.Table(text, [text], [[text]]),
        blocks.Intervals(text, [text, "b"], [1.0, 2.0], [0.1, 0.1]),
    ):
        charts.card(block)
        for name, figure in figures.pictures([block]):
            figure.savefig(io.BytesIO(), format="png")
            assert 0 < len(name) <= 60
    topics = summarise(
        np.array([[9.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 1.0, 9.0]]), [text, "b", text]
    )
    for _, figure in figures.pictures([blocks.Topics("3 topics", topics, 1 - np.eye(3))]):
        figure.savefig(io.BytesIO(), format="png")


def test_what_cannot_be_read_back_is_refused():
    with pytest.raises(ValueError, match="not of one length"):
        blocks.from_json([{"kind": "Table", "title": "t", "header": ["a", "b"], "rows": [[1]]}])
    with pytest.raises(ValueError, match="edges of 'g' end at nothing"):
        blocks.from_json([{"kind": "Arcs", "title": "g", "names": ["a"], "edges": [[0, 1, 0.5]]}])
    for joins in ([[0, 1, 0.5]], [[0, 3, 0.1], [1, 2, 0.5]], [[0, 1, 0.1], [0, 3, 0.5]], []):
        record = {"kind": "Tree", "title": "t", "names": ["a", "b", "c"], "joins": joins}
        with pytest.raises(ValueError, match="joins of 't' are not those of a tree"):
            blocks.from_json([record])
    with pytest.raises(KeyError):
        blocks.from_json([{"kind": "Script", "title": "t"}])


def test_topics_come_back_from_json():
    topics = summarise(
        np.array([[9.0, 1.0], [1.0, 3.0]]), ["a", "b"], documents=[[Document("d", "x", 0.5)], []]
    )
    again = blocks.from_json(
        json.loads(json.dumps(blocks.to_json([blocks.Topics("2 topics", topics, np.eye(2))])))
    )[0]
    assert again.topics[0].label == topics[0].label
    assert again.topics[0].documents[0].title == "d"
    assert blocks.text([again]) == blocks.text([blocks.Topics("2 topics", topics, np.eye(2))])


def test_the_screen_aligns_words_left_and_numbers_right():
    shown = blocks.Table("T", ["", "long name"], [["a", 1.0], ["bbb", -0.25]], "Note.")
    assert blocks.text([shown]).splitlines() == [
        "T",
        "       long name",
        "  a         1.00",
        "  bbb      -0.25",
        "  Note.",
    ]


def test_the_screen_shows_curves_at_some_places_where_their_band_is_known():
    x, unknown = np.arange(30.0), np.where(np.arange(30) < 10, np.nan, 0.0)
    shown = blocks.Curves(
        "C", "step", ["y"], x, [2 * x], [2 * x - 1 + unknown], [2 * x + 1 + unknown], "Note."
    )
    assert blocks.text([shown]).splitlines()[1:] == [  # a forecast: its first steps
        "  step    10  11  12  13  14  15  16  17",
        "  y       20  22  24  26  28  30  32  34",
        "    from  19  21  23  25  27  29  31  33",
        "    to    21  23  25  27  29  31  33  35",
        "  Note.",
    ]
    along = blocks.Curves("C", "step", ["y"], x, [2 * x], [2 * x - 1], [2 * x + 1], "Note.")
    assert blocks.text([along]).splitlines()[1:3] == [
        "  step     0   5  11  17  23  29",
        "  y        0  10  22  34  46  58",
    ]


def test_a_long_table_is_cut_and_says_so():
    shown = blocks.Table("T", ["i"], [[i] for i in range(100)])
    lines = blocks.text([shown]).splitlines()
    assert len(lines) == 1 + 1 + 40 + 1
    assert lines[-1] == "  ... and 60 more"


def test_pictures_have_no_text_on_the_screen():
    assert blocks.text([EXAMPLES[1], EXAMPLES[3], EXAMPLES[6]]) == ""


def test_principal_components_keep_the_most_variance_and_turn_covariances():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 500, 1))
    x = np.hstack([one, one, one, other, other]) + 0.1 * rng.normal(size=(500, 5))
    x = x * [5.0, 0.1, 3000.0, 0.1, 0.1] + 10.0  # units do not matter
    plane = Plane(x, list("abcde"))
    lengths = np.sqrt(np.linalg.eigvalsh(np.corrcoef(x.T))[::-1][:2])
    np.testing.assert_allclose(plane.points(x).std(axis=0), lengths, rtol=1e-6)
    np.testing.assert_allclose(lengths, np.sqrt([3, 2]), rtol=0.05)
    xs, ys = plane.ellipse(x.mean(axis=0), np.cov(x.T))
    np.testing.assert_allclose([np.max(xs), np.max(ys)], 2 * plane.points(x).std(axis=0), rtol=0.02)


def test_two_columns_are_their_own_plane_and_one_gets_a_density():
    x = np.random.default_rng(1).normal(loc=[3.0, -1.0], size=(3000, 2))
    shown = scatter("S", x, ["a", "b"], np.zeros(3000, int))
    assert (shown.x_label, shown.y_label) == ("a", "b")
    assert len(shown.x) == 1500
    bars = histogram(
        "H", x[:, 0], "a", lambda grid: np.exp(-0.5 * (grid - 3) ** 2) / np.sqrt(2 * np.pi)
    )
    width = bars.points_x[1] - bars.points_x[0]
    np.testing.assert_allclose(np.sum(bars.points_y) * width, 1.0)
    np.testing.assert_allclose(np.interp(bars.points_x, bars.x, bars.y), bars.points_y, atol=0.12)


def test_a_curve_far_beyond_its_points_does_not_flatten_them():
    svg = charts.card(EXAMPLES[1])
    low, high = (
        float(v.replace(",", "").replace("\u2212", "-")) for v in (ticks(svg)[0], ticks(svg)[-1])
    )
    assert high - low < 20


def ticks(svg):
    return re.findall(r'class="tick"[^>]*text-anchor="end">([^<]+)<', svg)


def test_the_screen_shows_as_many_intervals_as_asked():
    block = blocks.Intervals(
        "Slopes", [f"g{i}" for i in range(30)], np.zeros(30), np.ones(30), "", 8
    )
    lines = blocks.text(blocks.from_json(blocks.to_json([block]))).splitlines()
    assert len(lines) == 2 + 8 + 1
    assert lines[-1] == "  ... and 22 more"


def test_labels_of_a_wide_heat_map_do_not_overlap():
    names = [f"frequency{i}" for i in range(65)]
    figure = figures.heat(blocks.Heat("Dictionary", ["0"], names, np.ones((1, 65))))
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert len(boxes) > 4
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_a_diagonal_that_is_apart_has_no_colour_and_sets_no_scale():
    values = [[1.0, 0.2], [-0.1, 1.0]]
    for apart, expected in ((True, [0, 1, 0.5, 0]), (False, [1, 0.2, 0.1, 1])):
        svg = charts.card(blocks.Heat("Matrix", ["a", "b"], ["a", "b"], values, "", apart))
        assert [float(x) for x in re.findall(r'fill-opacity="([\d.]+)"', svg)] == expected
        assert svg.count(">1<") == 2  # the numbers stay


def test_the_rounding_of_a_level_line_is_not_drawn_as_a_slope():
    x = np.arange(5.0)
    svg = charts.card(blocks.Lines("Line", "t", "y", x, 5.0 + 1e-7 * x))
    path = re.search(r'class="curve[^"]*" d="M([^"]*)"', svg)[1]
    heights = [float(y) for y in re.findall(r",([\d.]+)", path)]
    assert max(heights) - min(heights) < 1


def test_a_card_holds_its_numbers_as_csv():
    block = blocks.Table("A; b", ["", "name, of"], [["ä", 1.5], ['"q"', float("nan")]])
    name, href = re.search(
        r'download="([^"]*)" href="data:text/csv;charset=utf-8,([^"]*)"', charts.card(block)
    ).groups()
    assert name == "a_b.csv"
    assert urllib.parse.unquote(href) == ',"name, of"\nä,1.5\n"""q""",\n'


def test_states_stand_beside_their_sequence():
    states, sure = [0, 0, 1, 1], np.array([[0.9, 0.8, 0.1, 0.0], [0.1, 0.2, 0.9, 1.0]])
    svg = charts.card(blocks.Course("Course", ["x"], [[0.0, 1.0, 2.0, 3.0]], states, sure))
    behind = re.findall(
        r'class="hue-(\d) behind" x="([\d.]+)" y="[\d.]+" height="[\d.]+" width="([\d.]+)"', svg
    )
    assert [hue for hue, *_ in behind] == ["0", "1"]
    starts, widths = (np.array([float(row[i]) for row in behind]) for i in (1, 2))
    np.testing.assert_allclose(widths, widths[0], atol=0.1)
    np.testing.assert_allclose(starts[1], starts[0] + widths[0], atol=0.1)
    first = re.search(r'class="hue-0 part" d="M([^"]*)Z"', svg)[1]
    tops = [float(place.partition(",")[2]) for place in first.split("L")][::2][:4]
    np.testing.assert_allclose((max(tops) - np.array(tops)) / 30, [0.9, 0.8, 0.1, 0.0], atol=0.01)


def test_classes_have_a_legend_where_colours_tell_them_apart():
    x = [0.0, 1.0, 2.0]
    named = blocks.Scatter("Points", "a", "b", x, x, [2, 0, 2], names=["<low>", "central", "high"])
    drawn = charts.scatter(named)
    assert "&lt;low&gt;</text>" in drawn
    assert "high</text>" in drawn
    assert "central" not in drawn  # no point is of it
    assert [
        text.get_text() for text in figures.scatter(named).axes[0].get_legend().get_texts()
    ] == ["<low>", "high"]
    assert blocks.from_json(blocks.to_json([named]))[0].names == ["<low>", "central", "high"]
    outlined = blocks.Scatter("Points", "a", "b", x, x, [0, 0, 0], [(1, x, x)])
    assert ">1</text>" in charts.scatter(outlined)  # a component without rows has an outline
    for classes in ([0, 0, 0], np.arange(11)):
        places = np.arange(len(classes), dtype=float)
        other = blocks.Scatter("Points", "a", "b", places, places, classes)
        assert charts.scatter(other).count("<rect") == 0
        assert figures.scatter(other).axes[0].get_legend() is None


def test_a_legend_of_long_names_takes_as_many_lines_as_it_needs():
    drawn, height = svg.legend({k: f"a rather long name {k}" for k in range(6)}, svg.LEFT, 0.0)
    assert height == 3 * svg.LINE
    assert drawn.count('y="32.0" width') == 2


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_band_far_wider_than_its_curve_is_cut_alike_above_and_below(sign):
    """Held-out scores are negative: the lower half of their band was not shown. A band of one width
    is shown whole, so that a curve that is flat beside its error looks flat."""
    y = sign * np.array([2.64, 2.63, 2.62])
    width = np.array([0.5, 0.5, 0.5])
    block = blocks.Lines("Score", "t", "y", [0.0, 1.0, 2.0], y, y - width, y + width)
    in_view = blocks.values_in_view(block)
    np.testing.assert_allclose([min(in_view), max(in_view)], [y.min() - 0.5, y.max() + 0.5])
    width[1] = 50.0
    in_view = blocks.values_in_view(block._replace(low=y - width, high=y + width))
    np.testing.assert_allclose([min(in_view), max(in_view)], [y.min() - 1, y.max() + 1], atol=0.02)


def test_a_curve_of_one_value_is_a_sentence():
    block = blocks.Lines("Score", "passes", "score", [148.0], [-4.223], [-4.307], [-4.139])
    assert charts.lines(block) == "<p>One value: \u22124.223 ± 0.084, at 148 passes.</p>"
    assert charts.lines(block._replace(y=[None])) == "<p>No value yet.</p>"


def test_scores_without_an_error_are_points_without_a_band():
    """Of a single held-out sequence the error is not known."""
    x, y, error = np.array([1.0, 2.0]), np.array([-3.0, -2.0]), np.array([math.nan, math.inf])
    drawn = charts.lines(blocks.Lines("", "pass", "score", x, y, y - error, y + error, x, y))
    assert '<path class="band' not in drawn
    assert drawn.count("<circle") == 2
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_a_table_of_components_shows_those_that_hold_rows():
    """Small ones too: of 10,000 rows three are far below a thousandth. It says how many hold
    none."""
    means = np.array([[1.0, 2.0], [5.0, 6.0], [3.0, 4.0], [7.0, 8.0]])
    seen = SimpleNamespace(
        point=lambda name: means, data=SimpleNamespace(train=Table(("a", "b"), means))
    )
    rows = np.array([9996.8, 0.2, 0.0, 3.0])
    leading = {"weight": rows / rows.sum(), "rows": rows}
    (block,) = emissions.component_blocks("Components", "poisson", seen, ("a", "b"), leading, rows)
    assert [row[0] for row in block.rows] == [0, 3]
    assert block.rows[1][2:] == [3.0, 7.0, 8.0]
    assert block.note.endswith(" 2 of 4 components hold no row and are left out.")


# --- digits ---------------------------------------------------------------------------------------
FAR = 2_020_000.0
"""A place that four or six digits do not tell from its neighbours."""


def test_numbers_of_a_table_have_the_digits_that_their_spread_needs():
    """On the screen, on the page, and in the file, after JSON too: mean, low and high differ."""
    header = ["", "mean", "sd", "5 %", "95 %", "odds ratio"]
    block = blocks.Table("T", header, [["a", FAR + 0.4321, 0.097, FAR + 0.27, FAR + 0.59, 1.00001]])
    again = blocks.from_json(json.loads(json.dumps(blocks.to_json([block]))))[0]
    for shown in (block, again):
        line = blocks.text([shown]).splitlines()[2].split()
        assert line[:5] == ["a", "2,020,000.432", "0.097", "2,020,000.270", "2,020,000.590"]
        assert "<td>2,020,000.432</td>".replace("<td>", '<td class="number">') in charts.table(
            shown
        )
        assert again.rows[0][5] == 1.00001
    (_, text), *_ = exports.tables([again])
    assert text.splitlines()[1] == "a,2020000.4321,0.097,2020000.27,2020000.59,1.00001"


def test_a_chart_far_from_zero_keeps_its_shape_and_its_marks_differ():
    x, y = np.arange(5.0), FAR + np.array([0.1, 0.7, 0.3, 0.9, 0.5])
    block = blocks.Lines("L", "t", "y", x, y)
    again = blocks.from_json(json.loads(json.dumps(blocks.to_json([block]))))[0]
    np.testing.assert_allclose(np.array(again.y) - FAR, y - FAR, atol=1e-3)
    marks = ticks(charts.card(again))
    assert len(marks) > 2
    assert len(set(marks)) == len(marks)
    bars = blocks.Intervals("B", ["a"], [FAR + 0.4321], [0.097])
    again = blocks.from_json(json.loads(json.dumps(blocks.to_json([bars]))))[0]
    np.testing.assert_allclose(again.mean, bars.mean, rtol=0, atol=1e-4)
    assert "2,020,000.432 ± 0.097" in charts.card(again)
    assert blocks.text([again]).splitlines()[2].split() == ["a", "2,020,000.432", "0.097"]


def test_years_have_no_thousands_separator_and_a_long_mark_keeps_its_minus():
    years = blocks.Lines(
        "L", "year", "y", np.arange(1998.0, 2041.0), np.linspace(-0.46985, -0.46980, 43)
    )
    drawn = charts.card(years)
    assert ">2010<" in drawn
    assert "2,010" not in drawn
    for mark in re.findall(r"<text class=\"tick\"[^>]*>\u2212[^<]+<", drawn):
        right = float(re.search(r'x="([\d.]+)"', mark)[1])
        squeezed = re.search(r'textLength="([\d.]+)"', mark)
        width = float(squeezed[1]) if squeezed else svg.LETTER * len(mark.rsplit(">", 1)[1][:-1])
        assert right - width >= 0


# --- what is cut ----------------------------------------------------------------------------------
def test_what_is_cut_is_said_and_the_file_has_all():
    """Of 250 groups 100 are drawn; the note, the screen and the title of the figure say so, the
    file has 250."""
    block = blocks.Intervals(
        "x, by g", [f"g{i}" for i in range(250)], np.arange(250.0), np.ones(250), "Bars.", 8
    )
    drawn = charts.card(blocks.from_json(blocks.to_json([block]))[0])
    check_names(drawn, "100", "250", "CSV", "x_by_g.csv")
    assert drawn.count('class="mark mark-0"') == 100
    ((name, text),) = exports.tables([block])
    assert (name, len(text.splitlines())) == ("x_by_g", 251)
    assert (
        blocks.text([block], folder="tables/").splitlines()[-1]
        == "  ... and 242 more: tables/x_by_g.csv has all"
    )
    ((_, figure),) = figures.pictures([block])
    assert figure.axes[0].get_title(loc="left").endswith("(the first 100 of 250)")
    rows = blocks.Table("T", ["i"], [[i] for i in range(3000)], "Note.")
    page = charts.card(rows)
    check_names(page, "2,000", "3,000 rows", "CSV", "t.csv")
    assert page.count("<tr>") == 2001
    assert "are drawn" not in charts.card(blocks.Intervals("few", ["a"], [0.0], [1.0]))


def test_points_that_are_left_out_are_said():
    x = np.random.default_rng(1).normal(size=(3000, 2))
    assert (
        scatter("S", x, ["a", "b"], np.zeros(3000, int)).note
        == "Of 3,000 rows 1,500 are drawn, evenly spread."
    )
    assert scatter("S", x[:50], ["a", "b"], np.zeros(50, int)).note == ""


def test_two_figures_of_one_title_have_two_files():
    of = lambda means: blocks.Intervals("Effects", ["a"], means, [0.1])
    names = [
        name
        for name, _ in figures.pictures(
            [of([1.0]), of([2.0]), blocks.Intervals("Curves", ["a"], [1.0], [1.0])]
        )
    ]
    assert names == ["effects", "effects_2", "curves_2"]
