"""Commands that need no run: they propose and show settings, prepare data, or fit many
responses."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vijax.app.commands.endings import UNUSABLE
from vijax.app.settings.progress import say_to_stderr
from vijax.terminal import printable


def many(
    data: str,
    /,
    *,
    formula: str,
    responses: str,
    out: Path,
    of: tuple[str, ...] = (),
    family: str = "gaussian",
    by: str | None = None,
    prior: tuple[str, ...] = (),
    weights: str | None = None,
    level: float = 0.9,
    rate: float = 0.05,
    seed: int = 0,
    quantile: float | None = None,
    missing: Literal["refuse", "drop"] = "refuse",
    missing_words: tuple[str, ...] | None = None,
    precisions: str | None = None,
) -> int:
    """Fits many responses (genes, taxa, voxels) to one design, side by side, and tells how many
    signs of a coefficient are sure, with the number of responses in mind.

    Args:
      data: table of the samples, a row each.
      formula: ~ terms, without a response: "~ treatment + (1 | donor)".
      responses: table of the responses: a column for each, and the rows of the samples in their
        order. With --by a row for each response, its name first.
      out: new folder: estimates.csv (all unknowns), a table for each coefficient, fits.npz.
      of: coefficients to print, all if not given.
      family: law of the responses, as in model.family of glmm.
      by: column of the samples' names, which the columns of responses then have.
      prior: priors as in model.priors of glmm: --prior "dose: normal 0 2".
      weights: column that says how often a row counts.
      level: probability of the intervals.
      rate: expected share of wrong signs in the lists that are counted.
      seed: seed of the draws.
      quantile: quantile of the family asymmetriclaplace, as model.quantile of glmm.
      missing: samples that lack a cell of the formula, or a weight: refuse, or drop.
      missing_words: words and numbers for a missing cell in both files, as data.missing_words:
        --missing-words=-999 NA.
      precisions: column of precisions w: the variance of a row is sigma^2 / w.
    """
    from vijax.app.answers.many import ManyRequest, fit_many
    from vijax.app.settings.typed_toml import check_seed

    check_seed(seed)
    request = ManyRequest(
        formula=formula,
        responses=responses,
        family=family,
        by=by,
        prior=prior,
        weights=weights,
        level=level,
        seed=seed,
        quantile=quantile,
        missing=missing,
        missing_words=missing_words,
        precisions=precisions,
    )
    text, is_usable = fit_many(data, request, out, of, rate, say_to_stderr)
    print(printable(text))
    return 0 if is_usable else UNUSABLE


def init(model: str, /, *, data: str, out: Path | None = None, set: tuple[str, ...] = ()) -> int:
    """Writes a configuration to edit, after a look at the data.

    Args:
      model: its name (`vijax settings` lists them), or that of a configuration that comes with
          vijax.
      data: file, folder or URL of the data.
      out: the file to write; named after data and model if not given.
      set: settings that are known already, as key=value: --set data.separator=";"
          data.target=price.
    """
    from vijax.app.plan.initial import write_initial
    from vijax.app.settings.quoting import quote

    path = write_initial(model, data, out, set)
    print(f"Wrote {path}: look at it, then: vijax fit {quote(path)}")
    return 0


def prepare(
    config: Path,
    /,
    *,
    out: Path,
    data: str | None = None,
    set: tuple[str, ...] = (),
    workers: int = 1,
) -> int:
    """Makes Parquet shards of texts that need not fit in memory; `vijax fit CONFIG --data OUT`
    reads them. Stopped and called again, it goes on where it was.

    Args:
      config: a configuration of a model of documents, whose [data] says how text becomes words.
      out: folder of the shards.
      data: file, folder or URL of the texts; in place of data.path.
      set: settings to change, as key=value: --set data.column=text data.min_df=20.
      workers: processes that work side by side.
    """
    from vijax.app.plan.config import load_config
    from vijax.app.settings.quoting import quote
    from vijax.app.sources.documents import prepare_shards

    prepare_shards(load_config(config, set, data), out, workers, say_to_stderr)
    command = f"vijax fit {quote(config)} --data {quote(out)}"
    print(f"The shards are in {out.resolve()}. Now: {command}")
    return 0


def configs() -> int:
    """Prints the names of the configurations that come with vijax."""
    from vijax.app.plan.config import configs_text

    print(configs_text())
    return 0


def settings(name: str | None = None, /, *, model: str | None = None) -> int:
    """Prints every setting of a model with its default and its meaning, as a TOML file to begin
    from.

    Args:
      name: a model, or a section of the settings: data, model, algorithm, fit or page.
      model: name of the model; without it, lda, under a list of the models.
    """
    from vijax.app.plan.config import SECTIONS, ConfigError, settings_text

    if name in SECTIONS:
        print(settings_text(model, name), end="")
        return 0
    if name is not None and model is not None:
        raise ConfigError(f"settings: expected one model, got {name!r} and --model {model}")
    print(settings_text(name or model), end="")
    return 0


def version() -> int:
    """Prints the version of vijax."""
    from vijax import __version__

    print(f"vijax {__version__}")
    return 0
