"""Errors, warnings and remarks by what they name, so that their prose can be mended without tests.

    with pytest.raises(ValueError, match=naming("rate:", "-1.0", "vijax.svi")): ...

The names are the argument, with its colon; what came in; and what the remedy tells to write. A
number stands alone in the text: `1` is not in `10`, `0.1` or `row_1`, but in `1.0` and `1e+09`."""

import re
from typing import Any

NUMBER_ENDS = r"(?=\.0+(?!\d)|e[+-]\d|(?!\w|[.,]\d))"
"""What may follow a number: zeros after its point, an exponent, or no letter and no digit."""


def _pattern(name: str) -> str:
    """A pattern of one name."""
    if not re.fullmatch(r"-?\d[\d.,]*", name):
        return re.escape(name)
    return rf"(?<![\w-])(?<!\d[.,]){re.escape(name)}{NUMBER_ENDS}"


def naming(*names: str) -> str:
    """A pattern for `match=`: of texts that have all of these names, in any order.

    >>> text = "rate: expected a positive number, got -1.0. Write vijax.svi(model)."
    >>> bool(re.search(naming("rate:", "-1.0", "vijax.svi"), text)), bool(re.search(naming("size:"), text))
    (True, False)
    >>> bool(re.search(naming("1"), "got 1.")), bool(re.search(naming("1"), "got 10 or 0.1"))
    (True, False)
    """
    return "(?s)^" + "".join(f"(?=.*{_pattern(name)})" for name in names)


def check_names(text: Any, *names: str) -> None:
    """Fails unless a text has all of these names."""
    missing = [name for name in names if not re.search(_pattern(name), str(text))]
    assert not missing, f"expected a text that names {missing}, got: {text}"
