"""Figures of runs: drawing them takes as long as the rest of a small run, so that it is left out
where none is read."""

import contextlib

import pytest

DRAWING = "vijax.app.report.pages._write_figures"


@pytest.fixture(scope="module", autouse=True)
def figures(request):
    """Runs draw none, but in modules that say FIGURES = True, and inside `with figures():`."""
    if getattr(request.module, "FIGURES", False):
        yield contextlib.nullcontext
        return
    from vijax.app.report import pages

    draw = pages._write_figures

    @contextlib.contextmanager
    def drawn():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DRAWING, draw)
            yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DRAWING, lambda *arguments: [])
        yield drawn
