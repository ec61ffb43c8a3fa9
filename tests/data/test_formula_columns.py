"""Columns of formulas: against formulae, NumPy and SciPy; types, later rows, names and levels of
any letters."""

import decimal
import pickle

import numpy as np
import pytest

from vijax.data.formulas.algebra import expand_terms
from vijax.data.formulas.design_columns import learn
from vijax.data.formulas.parser import parse
from vijax.data.schema.typed_columns import typed_table
from vijax.models.formulas import formula

RNG = np.random.default_rng(0)
N = 24
TABLE = {
    "y": RNG.normal(size=N),
    "x": RNG.normal(size=N),
    "z": RNG.normal(size=N) + 5,
    "h": np.array(list("abc"))[np.arange(N) % 3],
    "k": np.array(list("uv"))[np.arange(N) // 12],
    "i": np.arange(N) % 4,
    "b": np.arange(N) % 2 == 0,
}


def columns_of(text, table=TABLE, functions=None):
    made = parse(f"y ~ {text}", functions=functions or {})
    return learn(made, made.addends, typed_table(table), functions or {})


def values(text, table=TABLE):
    return columns_of(text, table).matrix(typed_table(table)).x


ALIKE = """x|np.log(z)|I(x**2)|{x/2}|poly(x,2)|h|C(h,Sum)|C(h, Treatment('b'))|C(i)|S(h)|T(h,'b')|x*h|h*x|h:x|h*k|h:k
0+h|0+h:k|0+x:h|x:np.log(z)|scale(x)|center(x)|-1+x|h-1|b|b*x|I(x+z*2)|I(-x)|(x+z+h)**2|standardize(x)|I(x>0)
np.log10(z)|0 + h + k|C(h):x|x/h|poly(x,2,raw=True)|np.power(z,2)|I(h=='a')|{x/np.max(x)}"""
ALIKE = ALIKE.replace("\n", "|").split("|")


@pytest.mark.parametrize("text", ALIKE)
def test_columns_and_names_are_those_of_formulae(text):
    formulae = pytest.importorskip("formulae")
    pandas = pytest.importorskip("pandas")
    common = formulae.design_matrices(f"y ~ {text}", pandas.DataFrame(TABLE)).common
    labels = [label for term in common.terms.values() for label in term.labels]
    learnt = columns_of(text)
    assert list(learnt.labels) == labels
    np.testing.assert_allclose(
        learnt.matrix(typed_table(TABLE)).x, np.asarray(common.design_matrix), atol=1e-12
    )


@pytest.mark.parametrize(
    "text",
    [
        *[
            "h/k",
            "k/h/x",
            "h/x",
            "h:k + h",
            "x:h + x",
            "h*k*x",
            "0 + h*k",
            "h*bs(x, df=4)",
            "S(h)*C(k, Helmert)",
        ],
        *["0 + x*h", "h:k", "C(i, Poly)*x", "0 + h:k + x", "poly(x, 3):h", "(h + k + b)**3"],
    ],
)
def test_no_column_depends_on_others_and_all_of_the_term_is_there(text):
    """The span of a term is that of all products of its numbers and indicators (Chambers and Hastie
    1992, 2.4)."""
    x = values(text)
    rank = np.linalg.matrix_rank
    assert rank(x) == x.shape[1]
    made = parse(f"y ~ {text}")
    for term in expand_terms(made, made.addends).terms:
        whole = np.ones((N, 1))
        for node in map(str, term):
            own = values(f"0 + {node}") if node[:2] in ("bs", "po") else indicators(node)
            whole = np.einsum("na,nb->nab", whole, own).reshape(N, -1)
        assert rank(np.concatenate([x, whole], 1)) == rank(x), term


def indicators(node):
    """A column for each level of a category, or the numbers of a column."""
    name = node.partition("(")[2].split(",")[0].strip(")") or node
    column = np.asarray(TABLE[name])
    if name in "xz" or (name == "b" and node == "b"):
        return column[:, None].astype(float)
    return (column[:, None] == np.unique(column)).astype(float)


def test_contrasts_are_those_of_r():
    r, s = np.sqrt(1 / 2), np.sqrt(1 / 6)
    np.testing.assert_allclose(
        values("C(h, Poly)")[:3, 1:], [[-r, s], [0, -2 * s], [r, s]], atol=1e-12
    )
    np.testing.assert_array_equal(values("C(h, Helmert)")[:3, 1:], [[-1, -1], [1, -1], [0, 2]])
    np.testing.assert_array_equal(values("C(h, Sum('a'))")[:3, 1:], [[-1, -1], [1, 0], [0, 1]])
    text = "C(h, levels=['c', 'a', 'b'])"
    assert columns_of(text).labels == ("Intercept", f"{text}[a]", f"{text}[b]")


def test_splines_are_a_basis_with_the_constant():
    """Cubic between knots, with two derivatives that meet there: least squares give any cubic
    back."""
    x = values("bs(x, df=6)")
    assert x.shape == (N, 7)
    assert (x[:, 1:] >= 0).all()
    assert (x[:, 1:].sum(1) <= 1 + 1e-12).all()
    cubic = TABLE["x"] ** 3 - 2 * TABLE["x"] ** 2 + 1
    np.testing.assert_allclose(x @ np.linalg.lstsq(x, cubic, rcond=None)[0], cubic, atol=1e-10)
    np.testing.assert_allclose(values("bs(x, knots=[-.5, .5], degree=1)")[:, 1:].shape[1], 3)


SPLINES = (
    "bs(x, df=4) + poly(z, 2) + scale(x) + I(x - np.mean(x)) + {z / np.max(z)} + I(x / std(x)) + "
    "h*k"
)


def test_rows_alone_and_among_others_are_the_same_to_the_last_bit():
    learnt = columns_of(SPLINES)
    whole = learnt.matrix(typed_table(TABLE)).x
    for order in (RNG.permutation(N), np.array([3]), np.array([5, 5, 1])):
        part = {name: column[order] for name, column in TABLE.items()}
        np.testing.assert_array_equal(learnt.matrix(typed_table(part)).x, whole[order])


WIDE = {"a": [110, 3, 12, 7], "c": [180, 200, 9, 250]}
TYPES = {
    "int8": lambda v: np.array(v, np.int8 if max(v) < 128 else np.uint8),
    "uint16": lambda v: np.array(v, np.uint16),
    "int64": lambda v: np.array(v),
    "float32": lambda v: np.array(v, np.float32),
    "objects": lambda v: np.array(v, object),
    "decimals": lambda v: np.array([decimal.Decimal(x) for x in v], object),
    "list": list,
    "Int64": lambda v: pytest.importorskip("pandas").array(v, "Int64"),
    "series": lambda v: pytest.importorskip("pandas").Series(v, dtype="UInt8"),
    "arrow": lambda v: pytest.importorskip("pyarrow").chunked_array([v]),
    "polars": lambda v: pytest.importorskip("polars").Series(
        v, dtype=pytest.importorskip("polars").UInt8
    ),
}


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_every_type_are_float64_before_any_arithmetic(kind):
    table = {name: TYPES[kind](column) for name, column in WIDE.items()}
    text = "I(a**2) + I(-c) + np.log(c + 100) + np.power(c, 2) + a:c + I(c*2 - 200)"
    a, c = (np.array(column, float) for column in WIDE.values())
    expected = np.stack([np.ones(4), a**2, -c, np.log(c + 100), c**2, 2 * c - 200, a * c], 1)
    np.testing.assert_array_equal(columns_of(text, table).matrix(typed_table(table)).x, expected)


def test_what_is_learnt_pickles():
    learnt = pickle.loads(pickle.dumps(columns_of(SPLINES)))
    np.testing.assert_array_equal(learnt.matrix(typed_table(TABLE)).x, values(SPLINES))


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("np.log(x)", {}, r"finite values of np.log\(x\), got nan in row 2, counted from 0, where "
                          r"x = -0.74"),
        ("I(1 / e)", {"e": np.arange(N) * 1.0}, r"finite values of 1 / e, got inf in row 0"),
        ("np.exp(z)", {"z": np.full(N, 1e4)}, "got inf in row 0"),
        ("x", {"x": [*["1.5"] * 20, "abc", "2", "3", "4"]}, r"got 'abc' in row 20, counted from 0 "
                                                            r"\(1 such\). Correct"),
        ("x", {"x": [str(i) for i in range(N)]}, r"text, all of which says numbers. Write C\(x\)"),
        ("d", {"d": np.arange(N).astype("datetime64[D]")}, r"got dates in \['d'\]. Make them "
                                                           r"numbers"),
        ("d", {"d": [f"2024-01-{i + 1:02}" for i in range(N)]}, r"got dates in \['d'\]"),
        ("h", {"h": ["a"] * N}, "two levels or more of 'h', got one, 'a'. Leave"),
        ("scale(x)", {"x": np.ones(N)}, "a column with more than one value"),
        ("I(h + 1)", {}, "a column of numbers, 'h', got text"),
        ("poly(i, 4)", {}, "more than 4 different values for degree 4, got 4"),
        ("bs(x)", {}, "df=... or knots"),
        ("bs(x, df=2)", {}, "a whole number from 3"),
        ("bs(x, df=1e9)", {}, "a whole number from 3 to 2,000"),
        ("poly(x, 2, raw=1)", {}, "True or False"),
        ("C(h, Foo)", {}, "a contrast: Treatment, Sum, Helmert, Poly"),
        ("C(h, Treatment('q'))", {}, r"one of the levels \['a', 'b', 'c'\], got 'q'"),
        ("C(h, levels=['a', 'b'])", {}, "each level once"),
        ("C(x + z)", {}, r"C\(column\)"),
        ("log(x, 10)", {}, "1 argument of log, without names"),
        ("log(x=x)", {}, "1 argument of log, without names"),
        ("I(x == 'a')", {}, "a value of 'x'"),
        ("I(x + 1e999)", {}, "a number that a float64 can hold, got 1e999"),
        ("C(g1):C(g2)", {"g1": np.arange(N), "g2": np.arange(N)}, None),
        ("h", {"h": [f"v]:k[{i % 2}" if i % 3 else "v" for i in range(N)]}, None),
    ],
)  # fmt: skip
def test_bad_columns_are_refused_with_their_place(text, more, said):
    table = {**TABLE, **more}
    if said is None:
        assert (
            len(set(columns_of(text, table).labels))
            == columns_of(text, table).matrix(typed_table(table)).x.shape[1]
        )
        return
    with pytest.raises(ValueError, match=said) as caught:
        columns_of(text, table)
    assert str(caught.value).startswith("formula: expected ")
    assert "^" in str(caught.value).splitlines()[-1]


def test_levels_that_read_alike_are_refused():
    many = {"h": np.array(["a]:k[v", "a", "b"])[np.arange(N) % 3], "k": TABLE["k"]}
    both = {**many, "k": np.array(["v]", "v", "w"])[np.arange(N) // 8]}
    columns_of("h + k", {**TABLE, **many})
    text = "0 + h:k"
    labels = columns_of(text, {**TABLE, **both}).labels
    assert len(set(labels)) == len(labels)


def test_a_function_of_ones_own_is_called_by_name_and_checked():
    own = {"half": lambda x: x / 2}
    made = columns_of("half(x) + np.log(half(z))", functions=own)
    assert made.labels == ("Intercept", "half(x)", "np.log(half(z))")
    np.testing.assert_array_equal(made.matrix(typed_table(TABLE)).x[:, 1], TABLE["x"] / 2)
    with pytest.raises(ValueError, match="an array of the 24 rows from half, got shape"):
        columns_of("half(x)", functions={"half": lambda x: x[:3]})
    with pytest.raises(ValueError, match="a listed function, got 'half'"):
        columns_of("half(x)")


def test_rows_beyond_the_splines_are_said():
    learnt = columns_of("bs(x, df=4)")
    far = typed_table({"x": [0.0, 50.0, -50.0]})
    (note,) = learnt.beyond(far)
    assert note.startswith("2 rows of x lie beyond ")
    assert learnt.beyond(typed_table(TABLE)) == ()
    assert np.isfinite(learnt.matrix(far).x).all()


def test_a_column_of_true_and_false_stays_one():
    """2 was taken for twice true."""
    design = formula.read("y ~ b", {"y": np.arange(4.0), "b": np.array([True, False, True, True])})
    assert design.read_rows({"b": [True, False]}).x.tolist() == [[1, 1], [1, 0]]
    assert design.read_rows({"b": [1, 0.0]}).x.tolist() == [[1, 1], [1, 0]]
    for wrong in ([1, 2], [0.5, 0]):
        with pytest.raises(
            ValueError, match=r"expected true or false \(1 or 0\), as training has, got"
        ):
            design.read_rows({"b": wrong})
