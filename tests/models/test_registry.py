"""Every ready model, every emission and every law of a regression by a formula has a row in the
registry."""

import inspect
import typing
from pathlib import Path

import vijax as vi
from tests.models.registry import ROWS, TABLES
from vijax.contract.model import Model
from vijax.models import emission
from vijax.models.emission import Emission
from vijax.models.formulas.laws import LAWS


def makers(module, kind):
    """The public functions of a module that return a model, or an emission."""
    for name in module.__all__:
        function = getattr(module, name)
        if not inspect.isfunction(inspect.unwrap(function)):
            continue
        returned = typing.get_type_hints(inspect.unwrap(function)).get("return")
        if inspect.isclass(returned) and issubclass(returned, kind):
            yield name


def test_every_ready_model_has_a_row():
    """A new model needs one: see the registry."""
    wanted = {*makers(vi.models, Model), "dtm", "glmm", "stm"}
    assert len(wanted) > 25
    assert {case.covers for case in (*ROWS, *TABLES)} == wanted


def test_every_emission_has_a_row():
    # These make one of the others.
    others = {
        "mixture_blurred",
        "mixture_around",
        "mixture_placed",
        "mixture_incomplete",
        "mixture_with_labels",
    }
    wanted = {f"mixture_{name}" for name in makers(emission, Emission)} - others
    assert len(wanted) == 8
    assert wanted <= {case.name for case in ROWS}


def test_every_law_of_a_formula_has_a_row_and_so_have_kinds_of_terms():
    names = {case.name for case in TABLES if case.covers == "glmm"}
    assert {f"glmm_{name}" for name in (*LAWS, "crossed", "monotone", "smooth", "process")} <= names


def test_rows_have_names_of_their_own():
    names = [case.name for case in (*ROWS, *TABLES)]
    assert len(names) == len(set(names))


def test_checks_of_the_evidence_are_where_rows_say():
    named = {case.evidence for case in ROWS if case.evidence}
    assert len(named) > 1
    assert all((Path(__file__).parents[2] / name).is_file() for name in named)
