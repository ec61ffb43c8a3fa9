"""The grammar of formulas: what is read, what is refused and where, and that nothing of a formula
is run."""

import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from vijax.data.formulas.algebra import expand_terms
from vijax.data.formulas.parser import parse
from vijax.data.formulas.tokens import quote_name, read_tokens


def terms(text):
    made = parse(text)
    return [":".join(map(str, term)) or "1" for term in expand_terms(made, made.addends).terms]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y ~ x", ["1", "x"]),
        ("y ~ a * b", ["1", "a", "b", "a:b"]),
        ("y ~ a / b", ["1", "a", "a:b"]),
        ("y ~ (a + b) / c", ["1", "a", "b", "a:b:c"]),
        ("y ~ (a + b + c)**2", ["1", "a", "b", "c", "a:b", "a:c", "b:c"]),
        ("y ~ (a + b)^2 - a:b", ["1", "a", "b"]),
        ("y ~ a * b * c - a:b:c", ["1", "a", "b", "c", "a:b", "a:c", "b:c"]),
        ("y ~ 0 + a", ["a"]),
        ("y ~ a - 1", ["a"]),
        ("y ~ -1 + a", ["a"]),
        ("y ~ 1", ["1"]),
        ("y ~ (1 | g) - 1", []),
        ("y ~ b:a + a:b", ["1", "b:a"]),
        ("y ~ (0 + a)", ["a"]),
        ("y ~ a:b + a", ["1", "a", "a:b"]),
        ("y ~ `a b` + Sepal.Length", ["1", "`a b`", "Sepal.Length"]),
        ("y ~ I((x + z) / 2) + I(x + z / 2)", ["1", "I((x + z) / 2)", "I(x + z / 2)"]),
        ("y ~ {-x**2} + I(-(x**2)) + I((-x)**2)", ["1", "I(-x ** 2)", "I((-x) ** 2)"]),
        ("y ~ {x - (z - w)} + {x - z - w}", ["1", "I(x - (z - w))", "I(x - z - w)"]),
        ("y ~ {2 ** (3 ** x)} + {(2 ** 3) ** x}", ["1", "I(2 ** 3 ** x)", "I((2 ** 3) ** x)"]),
        (
            "y ~ C(h, Treatment('b'), levels=['b', 'a'])",
            ["1", "C(h, Treatment('b'), levels=['b', 'a'])"],
        ),
        ("y ~ sigma + Intercept", ["1", "`sigma`", "`Intercept`"]),
    ],
)
def test_terms_are_those_of_wilkinson_and_rogers(text, expected):
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("y ~ x g", 6, "an operator between terms, got 'g'. Write [+]"),
        ("y ~ x , g", 6, "an operator between terms, got ','"),
        ("y ~ x! + g", 5, "got '!'"),
        ("y ~ x + h extra", 10, "got 'extra'"),
        ("y ~ x == 1", 6, "got '=='. Write arithmetic and comparisons inside of I"),
        ("y ~ x // g", 6, "got '//'"),
        ("y ~ x %in% g", 6, "got '%'"),
        ("y ~ x % g", 6, "got '%'"),
        ("y ~ 1e999*x", 4, "0 or 1, .* got '1e999'"),
        ("y ~ 2*x", 4, "0 or 1"),
        ("y ~ 1*x", 4, "columns in products"),
        ("y ~ x:1", 6, "columns in products"),
        ("y ~ x**9", 4, "a sum of terms before .* Write I.x[*][*]9."),
        ("y ~ x - z", 8, "terms that are there, to the right of a minus, got 'z'"),
        ("y ~ x + (x | g | h)", 15, "one bar in each term"),
        ("y ~ x | g", 6, "bars in parentheses"),
        ("y ~ x * (1 | g)", 8, "terms of their own"),
        ("y ~ x - (1 | g)", 8, "group effects that are added"),
        ("y ~ (x | g + h)", 11, "'[)]' after the groups"),
        ("y ~ (x | log(g))", 12, "'[)]' after the groups"),
        ("y ~ log(C(h))", 8, "functions of numbers inside of arithmetic"),
        ("y ~ x:offset(z)", 6, "an offset as a term of its own"),
        ("y ~ x - offset(z)", 8, "an offset that is added"),
        ("y ~ p(x, z)", 4, "terms to the right of ~"),
        ("y ~ Treatment(h)", 4, "a term, got 'Treatment'. Write C"),
        ("y ~ x[1]", 4, "terms to the right of ~"),
        ("y ~ log(x", 9, "between arguments|after the last"),
        ("y ~ `x", 4, "a second backquote"),
        ("y ~ C(h, 'a)", 9, "a second ' after the text"),
        ("y ~ x;z", 5, "got ';'"),
        ("y ~ x ~ z", 6, "an operator between terms"),
        ("y", 1, "response ~ terms"),
        ("y ~", 3, "a term, got the end"),
        ("y ~ .", 4, "got '.'"),
        ("y ~ log(x).real", 10, "got '.'"),
        ("y ~ lambda: 1", 12, "columns in products"),
        ("y ~ x if x else z", 6, "got 'if'"),
        ("y ~ [x for x in z]", 4, r"a term, got '\['"),
        ("y ~ 'text'", 4, "a term, got \"'text'\""),
        ("y ~ f'{x}'", 5, "an operator between terms"),
        ("y ~ I(x > 1 and x < 3)", 12, "got 'and'. Write a product: .x > 1. . .x < 3."),
        ("y ~ I(x < 1 or x > 3)", 12, "got 'or'. Write 1 - "),
        ("y ~ I(1 < x < 3)", 12, "got '<'. One comparison stands alone: write .x > 1. . .x < 3."),
        (
            "y ~ I('a' == h)",
            10,
            "got '=='. One comparison stands alone: .* the column first: h == 'a'",
        ),
    ],
)
def test_what_is_not_of_the_grammar_is_refused_with_a_mark_under_its_place(text, place, said):
    with pytest.raises(ValueError, match=said) as caught:
        terms(text)
    _, shown, mark = str(caught.value).split("\n")
    assert shown == f"    {text}"
    assert mark.index("^") == 4 + place


CALLS = [
    "dataclasses.inspect.os.system('touch marker')",
    "np.f2py.os.system('touch marker')",
    "np.load('x.npy', allow_pickle=1)",
    "np.savetxt('marker', x)",
    "np.fromfile('x')",
    "__import__('os').system('touch marker')",
    "eval('1')",
    "exec('1')",
    "open('marker', 'w')",
    "x.to_csv('marker')",
    "np.log.__class__(x)",
    "np.random.seed(1)",
    "globals()",
    "getattr(x, 'y')",
    "log.__globals__(x)",
    "vijax.load('.')",
    "`np.log`(x)",
    "sum(x)",
    "np.sum(x)",
    "sigmoid(x)",
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "form", ["y ~ x + {}", "{} ~ x", "y ~ ({} | g)", "y ~ I(x + {})", "y ~ offset({})", "~ {}"]
)
def test_a_function_that_is_not_listed_is_never_called(call, form):
    with pytest.raises(ValueError, match=r"\^"):
        terms(form.format(call))


def test_a_long_formula_is_refused_and_not_a_crash():
    for text in [
        "y ~ " + "(" * 3000 + "x" + ")" * 3000,
        "y ~ I(" + "-" * 5000 + "x)",
        "y ~ " + "x**2" * 9000,
    ]:
        with pytest.raises(ValueError, match=r"at most|expected"):
            terms(text)
    for text in [
        "y ~ " + "*".join(f"x{i}" for i in range(60)),
        "y ~ (" + "+".join(f"x{i}" for i in range(150)) + ")**3",
    ]:
        with pytest.raises(ValueError, match="at most"):
            terms(text)
    assert len(terms("y ~ " + " + ".join(f"x{i}" for i in range(500)))) == 501


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("xyg ~+-*/:()|{}[],=.`'\"10eC_np^%<>!\\\nlog"), max_size=25))
def test_any_text_is_a_formula_or_a_value_error(text):
    try:
        made = parse(f"y ~ {text}")
        expand_terms(made, made.addends)
    except ValueError:
        pass


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=12))
def test_a_name_of_any_letters_is_read_back_from_its_quotes(name):
    tokens = read_tokens(f"y ~ {quote_name(name)} + z")
    assert [token.text for token in tokens] == ["y", "~", name, "+", "z", ""]
    assert parse(f"y ~ ({quote_name(name)} | {quote_name(name)})").bars[0].columns == (
        unicodedata.normalize("NFC", name),
    )


def joined(parts):
    left, operator, right = parts
    return f"({left}) {operator} ({right})"


OPERATORS = st.sampled_from(["+", "-", "*", "/", "**", "//", "%"])
NUMBERS = st.deferred(
    lambda: (
        st.sampled_from(["x", "z", "`a b`", "1.5", "2"])
        | st.tuples(NUMBERS, OPERATORS, NUMBERS).map(joined)
        | NUMBERS.map(lambda inner: f"-({inner})")
        | NUMBERS.map(lambda inner: f"np.log({inner})")
    )
)


@settings(max_examples=80, deadline=None)
@given(NUMBERS)
def test_the_text_of_a_part_says_the_part(text):
    assume(text.count("(") < 20)
    node = parse(f"y ~ I({text})").addends[0][1]
    assert parse(f"y ~ {node}").addends[0][1] == node


WATCHED = {"on": False, "events": []}


def _watch(event, arguments):
    # A hook stays for the life of the process, and the module's names are None when Python ends.
    if (
        WATCHED is not None
        and WATCHED["on"]
        and event
        in (
            "exec",
            "compile",
            "import",
            "open",
            "os.system",
            "subprocess.Popen",
            "marshal.loads",
        )
    ):
        WATCHED["events"].append((event, arguments[:1]))


def test_nothing_is_compiled_imported_or_opened_while_a_formula_is_read():
    import vijax as vi
    from vijax.models.formulas import formula

    x = np.linspace(1, 2, 12)
    table = {"y": x, "x": x, "h": np.array(list("abc") * 4), "a` + b": x, "g": np.arange(12) % 3}
    text = (
        "np.log(y) ~ bs(x, df=4) * h + C(h, Sum) + poly(x, 2) + I(x**2) + scale(`a`` + b`) + (x | "
        "g)"
    )
    formula.read(text, table).read_rows(table)  # what is imported late is imported
    sys.addaudithook(_watch)
    WATCHED["on"] = True
    try:
        formula.read(text, table).read_rows(table)
    finally:
        WATCHED["on"] = False
    assert WATCHED["events"] == []
    assert vi.glmm("y ~ `a`` + b`", {**table, "y": x**2}).names == [
        "Intercept",
        "`a`` + b`",
        "sigma",
    ]
