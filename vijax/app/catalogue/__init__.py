"""The models of the command line, one or several kindred models in a file: see "How to put a model
on the command line" in docs/extending.md.

Parts that several of them share are in `parts`. Rules of a kind of data are in `sources`, of rows
in `rows`.
"""

import importlib
import pkgutil

from vijax.app.sources.listing import Listing


def listings() -> dict[str, Listing]:
    """The listings in the files of this folder, by `model.name`: models of documents first."""
    by_name = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        for value in vars(module).values():
            if isinstance(value, Listing):
                by_name[value.name] = value
    return dict(sorted(by_name.items(), key=lambda item: (not item[1].reads_documents, item[0])))


LISTINGS = listings()
