"""The section [page]: what the page of a run on documents shows. `vijax report RUN` writes it again."""

from __future__ import annotations

import dataclasses
from typing import Literal

from vijax.app.settings.typed_toml import setting
from vijax.arguments import whole


@dataclasses.dataclass(frozen=True)
class DocumentPage:
    """[page]: what report.html shows, beside the topics. To change it later, edit config.toml and run vijax report."""

    by: tuple[str, ...] | None = setting(
        None, "columns to show topics by, such as a year or a section; unset: up to four of dates or of few values"
    )
    every: Literal["auto", "year", "month", "day"] = setting(
        "auto", "the stretch of time that makes a group, of a column of dates"
    )
    documents: int = setting(5_000, "most documents that can be searched on the page", whole(0))
    words: int = setting(20_000, "most words that can be searched on the page, the most frequent", whole())
    excerpts: bool = setting(True, "whether the run folder and the page hold how each document begins")
