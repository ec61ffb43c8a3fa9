"""Commands that answer from a finished run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Literal

from vijax.app.settings.progress import say_to_stderr
from vijax.terminal import printable


def summary(run: Path, /) -> int:
    """Prints the results of a run: clusters, states, factors, coefficients or topics.

    Args:
      run: folder of a run, finished or not.
    """
    from vijax.app.report.pages import read_run, summary_text

    print(summary_text(read_run(run)))
    return 0


def topics(
    run: Path,
    /,
    *,
    num_words: int = 10,
    num_topics: int | None = None,
    words: Literal["probability", "relevance", "frex", "lift", "score"] = "probability",
    tree: bool = False,
    format: Literal["text", "csv", "json", "md"] = "text",
) -> int:
    """Prints topics, largest first: number, share of all words, most probable words.

    Args:
      run: folder of a run of a topic model, finished or not.
      num_words: words of each.
      words: which words lead: the most probable ones; or by relevance, frex, lift or score, which
        prefer words that other topics lack.
      tree: print a tree instead, which joins first what differs least.
      num_topics: number of topics; all if not given.
      format: text to read; or csv, json or md (a table of Markdown), with the probabilities of
          words.
    """
    from vijax.app.drawing.exports import format_topics
    from vijax.app.folder.loaded import open_run
    from vijax.app.folder.run_end import say_remarks
    from vijax.app.settings.typed_toml import ConfigError

    if tree and (num_words, num_topics, words, format) != (10, None, "probability", "text"):
        raise ConfigError(
            "--tree: the tree has all topics, each with its name or three words; leave out "
            "--num-words, --num-topics, --words and --format"
        )
    loaded = open_run(run)
    if tree:
        text = printable(loaded.tree_text())
    else:
        text = format_topics(loaded.topics(num_words, words)[:num_topics], format, num_words)
    say_remarks(run, say_to_stderr)
    print(text)
    return 0


def transform(
    run: Path,
    /,
    *,
    data: str | None = None,
    out: Path | None = None,
    column: str | None = None,
    training: str | None = None,
) -> int:
    """Applies a run to other data, row by row: topic shares of documents; clusters, states or
    blocks with their probabilities; predictions with intervals; factors with standard deviations.
    Other columns are carried through.

    Args:
      run: folder of a run, finished or not.
      data: the data; all of the run's own, held-out ones too, if not given.
      out: file to write, .csv, .parquet or .jsonl; without it CSV is printed.
      column: the column of the text in a table of documents; that of the run if not given.
      training: the place of the training data now, for models that need them, if they have been
          moved.
    """
    from vijax.app.answers.results import transform_run

    print(transform_run(run, data, out, column, training, say_to_stderr))
    return 0


def predict(
    run: Path,
    /,
    *,
    data: str | None = None,
    rows: int | None = None,
    steps: int | None = None,
    draws: int = 1000,
    each: bool = False,
    level: float = 0.9,
    out: Path | None = None,
    seed: int = 0,
    training: str | None = None,
) -> int:
    """Draws data that the model expects to see (the posterior predictive distribution), and prints
    means, standard deviations and intervals of them, in the units of the data. Regressions draw the
    target of each row (those of `glmm` are in `vijax transform`); other models of tables draw all
    columns: of new rows (--rows), of the steps after each sequence (--steps: a forecast), or of the
    same rows once more, where what is missing is filled in.

    Args:
      run: folder of a run on a table, finished or not.
      data: the rows or sequences; all of the run's own if not given.
      rows: so many new rows instead; for models of sequences, one new sequence of so many steps.
      steps: so many steps after the end of each sequence.
      draws: number of draws.
      each: give the draws one by one, not means and intervals.
      level: probability of the intervals.
      out: file to write, .csv, .parquet or .jsonl; without it CSV is printed.
      seed: seed of the draws.
      training: see `vijax transform`.
    """
    from vijax.app.answers.results import PredictRequest, predict_run

    request = PredictRequest(data, rows, steps, draws, each, level, seed)
    print(predict_run(run, request, out, training, say_to_stderr))
    return 0


def shares(
    run: Path,
    /,
    *,
    by: str,
    every: Literal["year", "quarter", "month", "week", "day"] | None = None,
    data: str | None = None,
    column: str | None = None,
    out: Path | None = None,
) -> int:
    """Prints topics by group and over time: the share of the words of each group's documents that
    is of each topic.

    Args:
      run: folder of a run of a topic model, ended.
      by: column of the documents whose values are the groups; it must stand beside the text in the
          data.
      every: for a column of dates: a group for each year, quarter, month, week (of ISO 8601) or
        day.
      data: other documents; those of the run if not given.
      column: the column of the text in a table; that of the run if not given.
      out: file to write instead, .csv, .parquet or .jsonl: a row for each group and topic, with an
          interval.
    """
    from vijax.app.answers.shares import shares_of_run, tables
    from vijax.app.drawing.blocks import Topics, text
    from vijax.app.report.pages import read_run
    from vijax.app.rows.transformed import write_columns

    group_shares = shares_of_run(run, by, every, data, column, say_to_stderr)
    topics = next(block.topics for block in read_run(run).shown if isinstance(block, Topics))
    if out is None:
        topics = [topic for topic in topics if topic.words]
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
        print(
            text(
                tables(group_shares, by, topics, width),
                most=max(len(group_shares.groups), len(topics)),
            )
        )
    else:
        write_columns(out, group_shares.columns({topic.number: topic.label for topic in topics}))
        print(out)
    return 0


def effects(
    run: Path,
    /,
    *,
    of: tuple[str, ...] = (),
    ask: Literal[
        "comparisons", "slopes", "predictions", "means", "variance", "groups", "priors"
    ] = "comparisons",
    kind: Literal[
        "difference", "ratio", "lift", "odds_ratio", "log_ratio", "log_odds_ratio"
    ] = "difference",
    by: tuple[str, ...] = (),
    at: tuple[str, ...] = (),
    groups: Literal["same", "new", "zero"] | None = None,
    link: bool = False,
    data: str | None = None,
    level: float = 0.9,
    draws: int = 1000,
    out: Path | None = None,
    training: str | None = None,
) -> int:
    """Effects of columns in a run of glmm, in the units of the response, with intervals: by how
    much the mean (the probability) differs, averaged over rows or at values.

    Args:
      run: folder of a run of glmm, finished or not.
      of: columns, all of the formula if not given. For comparisons with their changes: x (one
          more, or each level against the base), dose=5, x=sd, t=1:2, h=pairwise, h=a:b.
      ask: comparisons; slopes (derivatives); predictions; means (marginal means of levels, over a
          balanced grid); variance (shares of variance explained, ICC); groups (effects of all
          groups, largest first); priors (how far each moves its estimate).
      kind: how two values are compared.
      by: columns within whose values rows are averaged.
      at: values by column, x=1,2 h=a: all combinations, other columns at their mean or most
          frequent level.
      groups: effects of groups: same (of the group of each row), new (integrated over their law),
          zero (left out). same where rows have groups, if not given.
      link: on the scale of the link.
      data: rows of a file instead of those of training.
      level: probability of the intervals.
      draws: number of draws of the posterior.
      out: file to write instead, .csv, .parquet or .jsonl, with all rows.
      training: see `vijax transform`.
    """
    from vijax.app.answers.effects import EffectsRequest, effects_of_run
    from vijax.app.rows.transformed import write_columns

    request = EffectsRequest(ask, of, kind, by, at, groups, link, data, level, draws)
    answer = effects_of_run(run, request, training, say_to_stderr)
    if out is None:
        print(printable(repr(answer)))
    else:
        write_columns(out, answer.columns())
        print(out)
    return 0


def evaluate(
    run: Path,
    /,
    *,
    data: str,
    column: str | None = None,
    seed: int = 0,
    training: str | None = None,
) -> int:
    """Scores a run on other data, beside a plain alternative: document completion (the first half
    of each document predicts the other half); for other models the log predictive density.

    Args:
      run: folder of a run.
      data: the data. Words the run has not seen are left out; a table must have the columns that
          the run's had.
      column: the column of the text in a table; that of the run if not given.
      seed: seed of the split in halves and of the draws.
      training: see `vijax transform`.
    """
    from vijax.app.answers.quality import evaluate_run
    from vijax.app.folder.loaded import open_run
    from vijax.app.folder.run_end import say_remarks
    from vijax.app.settings.typed_toml import check_seed

    check_seed(seed)
    loaded = open_run(run, training, allow_code=True)
    say_remarks(run, say_to_stderr)
    print(evaluate_run(loaded, data, column, seed, say_to_stderr))
    return 0


def report(run: Path, /, *, name: tuple[str, ...] = ()) -> int:
    """Writes report.html, summary.txt and the figures again, also of a run that has not ended.

    Args:
      run: its folder.
      name: names of topics, for all outputs from now on: --name "0: politics" "7: film".
    """
    from vijax.app.answers.results import rename_topics
    from vijax.app.report.pages import write_pages

    if name:
        rename_topics(run, name)

    print(write_pages(run))
    return 0
