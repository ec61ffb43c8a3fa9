"""Warnings of the library on the command line: one line, in its own words, without a path of the
program."""

import warnings

from vijax.app.plan.warned import warnings_in_a_line
from vijax.app.plan.wording import to_command_line_terms
from vijax.fitting.restarts import EqualStartsWarning


def test_a_warning_is_a_line(capsys):
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with warnings_in_a_line():
            said = (
                "restarts: all 5 runs are one.\nChoose a start that draws, such as "
                "init=vijax.init.local_draws(), or leave "
            )
            warnings.showwarning(
                EqualStartsWarning(f"{said}restarts out."), EqualStartsWarning, "run.py", 335
            )
    assert (
        capsys.readouterr().err
        == "Warning: restarts: all 5 runs are one. One is enough: --set fit.restarts=1.\n"
    )
    assert warnings.showwarning is before


def test_remedies_of_formulas_are_settings():
    message = (
        'formula: expected numbers, got text. Write 4 for "4 kg", and so in all rows; or '
        'family="categorical".'
    )
    assert to_command_line_terms(message).endswith(
        "in all rows; or --set model.family=categorical."
    )
