"""The models of the command line, one or several kindred ones a file: see "How to put a model on
the command line" in docs/extending.md.

What several of them share is in `parts`. What holds for a kind of data belongs to `sources`, for
rows to `rows`."""

import importlib
import pkgutil

from vijax.app.sources.listing import Listing


def listings() -> dict[str, Listing]:
    """The listings in the files of this folder, by `model.name`: models of documents first."""
    files = [
        importlib.import_module(f"{__name__}.{file.name}")
        for file in pkgutil.iter_modules(__path__)
    ]
    found = {
        one.name: one for file in files for one in vars(file).values() if isinstance(one, Listing)
    }
    return dict(sorted(found.items(), key=lambda item: (not item[1].reads_documents, item[0])))


LISTINGS = listings()
