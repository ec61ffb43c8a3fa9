"""The command line: `vijax fit`, `resume`, `summary`, `topics`, `transform`, and the others."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from vijax.app.settings.progress import say_to_stderr
from vijax.fitting.interrupt import ignore_interrupts
from vijax.terminal import printable


def fit(
    config: Path,
    /,
    *,
    data: str | None = None,
    out: Path | None = None,
    set: tuple[str, ...] = (),
    sweep: str | None = None,
    devices: int | str | None = None,
    distributed: bool = False,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    initialization_timeout: int = 300,
) -> int:
    """Fits a model to data, and leaves a run folder: summary.txt, report.html, posterior.npz,
    checkpoints.

    Args:
      config: TOML file of settings (`vijax init` writes one), or the name of one that comes with
        vijax (`vijax configs` lists them).
      data: file, folder or URL of the data; in place of data.path.
      out: new folder for the run; runs/NAME-1, runs/NAME-2, ... if not given.
      set: settings to change, as key=value: --set model.num_topics=100 fit.num_epochs=20.
      sweep: a setting and its values: --sweep model.num_topics=10,20,50 fits a run for each, and
          compares them.
      devices: number of devices over which each batch is split; in place of fit.devices. 2x4 splits
        batches in 2 and tables of topics in 4. Of several processes, the devices of each; all that
        it has if not given.
      distributed: this is one of several processes that make this fit together, started by srun,
        Open MPI, Kubernetes or the like, each with this same command.
      coordinator: address and port of process 0, as 10.0.0.1:1234, where the processes are not
          detected.
      num_processes: number of processes, likewise.
      process_id: number of this process, from 0, likewise.
      initialization_timeout: seconds for which a process waits for the others to come.
    """
    if distributed:
        if sweep is not None:
            raise ValueError(
                "sweep: expected none where several processes make one fit; start a run for each "
                "value"
            )
        from vijax.app.runs.together import fit_together

        cluster = coordinator, num_processes, process_id, devices, initialization_timeout
        return _end_of_team(*fit_together(config, set, data, out, cluster))
    _check_alone(coordinator=coordinator, num_processes=num_processes, process_id=process_id)
    set = set if devices is None else (*set, f"fit.devices={devices}")
    if sweep is not None:
        from vijax.app.runs.sweep import sweep as sweep_over

        return _end_of_sweep(*sweep_over(config, set, data, out, sweep, say_to_stderr))

    from vijax.app.plan.config import load_config
    from vijax.app.runs.run import start

    return _end(start(load_config(config, set, data), out))


def _check_alone(**options: object) -> None:
    """Raises ValueError on an option for several processes without --distributed."""
    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{option}: expected --distributed beside it, got {value} without it; add "
                "--distributed"
            )


def resume(
    run: Path,
    /,
    *,
    devices: int | str | None = None,
    distributed: bool = False,
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    initialization_timeout: int = 300,
) -> int:
    """Goes on with a run that was stopped in whatever way, to the result of an unbroken run; with a
    sweep, to the end of all its runs.

    Args:
      run: its folder.
      devices: number of devices to go on with, this time; fit.devices of the run if not given. Of
        several processes, the devices of each; all that it has if not given.
      distributed: this is one of several processes, of any number, that go on together; see `vijax
          fit`.
      coordinator: the same.
      num_processes: the same.
      process_id: the same.
      initialization_timeout: the same.
    """
    if distributed:
        from vijax.app.runs.together import resume_together

        cluster = coordinator, num_processes, process_id, devices, initialization_timeout
        return _end_of_team(*resume_together(run, cluster))
    _check_alone(coordinator=coordinator, num_processes=num_processes, process_id=process_id)
    from vijax.app.folder.team import Alone
    from vijax.app.runs.run import resume
    from vijax.app.runs.sweep import is_sweep, resume_sweep

    if is_sweep(run):
        if devices is not None:
            raise ValueError(
                f"devices: expected none for a sweep; write fit.devices in {run / 'config.toml'}"
            )
        return _end_of_sweep(run, resume_sweep(run, say_to_stderr))
    return _end(resume(run, team=Alone(devices)))


def compare(
    runs: tuple[Path, ...],
    /,
    *,
    out: Path | None = None,
    training: bool = False,
    by: str | None = None,
) -> int:
    """Compares runs on the held-out data that they share: scores, differences document by document
    (row by row) with their standard errors, coherence of topics.

    Args:
      runs: folders of two runs or more, of the same data with the same split.
      out: folder for comparison.txt, comparison.csv and comparison.png.
      training: compare bounds on the training data, where nothing is or can be held out.
      by: a column of labels beside the data: how far the topics, components or states of each run
          agree with it (NMI).
    """
    from vijax.app.answers.comparison import compare, compare_by_training
    from vijax.app.answers.comparison_files import comparison_text, write_comparison

    comparison = (
        compare_by_training(runs) if training else compare(runs, say_to_stderr, by=by or "")
    )
    if out is not None:
        write_comparison(out, comparison)
    print(comparison_text(comparison))
    return 0


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
    """
    from vijax.app.answers.many import ManyRequest, fit_many
    from vijax.app.settings.typed_toml import check_seed

    check_seed(seed)
    request = ManyRequest(formula, responses, family, by, prior, weights, level, seed)
    text, is_usable = fit_many(data, request, out, of, rate, say_to_stderr)
    print(printable(text))
    return 0 if is_usable else UNUSABLE


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


def check(run: Path, /, *, seed: int = 0, training: str | None = None) -> int:
    """Checks how far the posterior of a run can be trusted, in about a minute: importance weights,
    short chains, linear response, predictive checks, other starts. The verdict is on the run's page
    from then on.

    Args:
      run: folder of a run that has ended.
      seed: seed of all draws.
      training: see `vijax transform`.
    """
    from vijax.app.runs.checked import check_run

    verdict = check_run(run, seed, training, say_to_stderr)
    print(printable(str(verdict)))
    return 0 if verdict.usable else UNUSABLE


def edit(
    run: Path,
    /,
    *,
    merge: tuple[str, ...] = (),
    drop: tuple[int, ...] = (),
    split: tuple[int, ...] = (),
    order: tuple[int, ...] = (),
    name: tuple[str, ...] = (),
    out: Path | None = None,
    seed: int = 0,
    training: str | None = None,
) -> int:
    """Writes a new run whose topics are those of a run of lda or hdp, merged, dropped, split,
    renamed or in another order; all numbers are those before the edit. The run itself stays.

    Args:
      run: folder of a run of lda or hdp.
      merge: topics that become one, as --merge "3 7" "1 4 5": their words and their shares add up.
      drop: topics that go; their words are given to the others.
      split: topics that become two, by the documents in which their words stand.
      order: topics that come first, in this order.
      name: names of topics: --name "0: politics" "7: film".
      out: folder of the new run.
      seed: seed of the splits.
      training: see `vijax transform`.
    """
    from vijax.app.runs.topic_edits import TopicEdits, edit_run, read_groups

    edits = TopicEdits(read_groups(merge), drop, split, order, name)
    return _end(edit_run(run, edits, out, training, seed, say_to_stderr))


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


def configs() -> int:
    """Prints the names of the configurations that come with vijax."""
    from vijax.app.plan.config import configs_text

    print(configs_text())
    return 0


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

    path = write_initial(model, data, out, set)
    print(f"Wrote {path}: look at it, then: vijax fit {path}")
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
    from vijax.app.sources.documents import prepare_shards

    prepare_shards(load_config(config, set, data), out, workers, say_to_stderr)
    print(f"The shards are in {out.resolve()}. Now: vijax fit {config} --data {out}")
    return 0


def version() -> int:
    """Prints the version of vijax."""
    from vijax import __version__

    print(f"vijax {__version__}")
    return 0


RUNS = (
    fit,
    resume,
    compare,
    summary,
    topics,
    transform,
    predict,
    shares,
    effects,
    evaluate,
    check,
    edit,
    report,
)
OTHERS = (many, init, prepare, configs, settings, version)
COMMANDS: dict[str, Callable[..., int]] = {
    command.__name__: command for command in (*RUNS, *OTHERS)
}


def _end_of_sweep(folder: Path, comparison: Any) -> int:
    from vijax.app.answers.comparison_files import comparison_text

    print(comparison_text(comparison))
    print(
        f"Table and figure: {(folder / 'comparison.csv').resolve()}, "
        f"{(folder / 'comparison.png').resolve()}"
    )
    if comparison.unusable:
        print(
            f"Do not use: {', '.join(comparison.unusable)}. The verdict of each says why: vijax "
            f"summary {folder}/NAME"
        )
        return UNUSABLE
    return 0


def _end_of_team(outcome: Any, is_first: bool) -> int:
    """The exit code of one of several processes; only the first prints."""
    from vijax.fitting.status import FAILED, Status

    if is_first:
        return _end(outcome)
    if outcome in FAILED:
        return 3
    return 130 if outcome is Status.INTERRUPTED else 0


UNUSABLE = 4
"""Exit code of a run whose verdict is "Do not use this fit", and of a sweep with such a run."""


def _end(outcome: Any) -> int:
    """Prints the last screen: results, score, the path of the page, and how to resume."""
    from vijax.app.report.pages import summary_path
    from vijax.evaluate import Ranking, Score
    from vijax.fitting.status import Status

    finished = outcome.status in (Status.FINISHED, Status.CONVERGED)
    print(summary_path(outcome.folder).read_text(encoding="utf-8"))
    if outcome.score is not None:
        measure = "log predictive density"
        if isinstance(outcome.score, Score):
            measure = "document completion"
        if isinstance(outcome.score, Ranking):
            measure = "ranking"
        print(f"Held-out score ({measure}): {outcome.score}")
    print(f"Report: {(outcome.folder / 'report.html').resolve()}")
    if outcome.skipped:
        print(
            f"Warning: {outcome.skipped}. Look for extreme values in the data, or try "
            "data.standardise=true."
        )
    if not outcome.usable and (finished or outcome.status is Status.UNBOUNDED):
        print("Do not use this fit: the verdict above says why.")
        return UNUSABLE
    if finished:
        return 0
    if outcome.status is Status.MOSTLY_SKIPPED:
        print(
            "The run failed: what it found rests on the few other steps. Smaller steps: "
            "algorithm.step_size."
        )
        return 3
    if outcome.status is Status.DIVERGED:
        print(
            "The run stopped early: diverged. Correct the data, or take smaller steps: "
            "algorithm.step_size."
        )
        return 3
    print(
        f"The run stopped early: {outcome.status.name.lower()}. Go on: vijax resume "
        f"{outcome.folder}"
    )
    return 130


# --- errors and start-up --------------------------------------------------------------------------
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 2 wrong input, 3 diverged, 4 a fit whose
    verdict is not to use it, 5 another process of the fit is lost, 130 interrupted, 141 if nobody
    reads the output any more (as after `vijax summary RUN | head`), 1 a fault of vijax."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    debug = "--debug" in words or os.environ.get("VIJAX_DEBUG", "") not in ("", "0")
    words = [argument for argument in words if argument != "--debug"]
    words = ["version"] if words == ["--version"] else words
    ours = arguments is None
    at_the_end = ignore_interrupts if ours else lambda: None
    with _as_a_program(debug) if ours else contextlib.nullcontext():
        try:
            code = _run_and_report(words, debug, at_the_end)
        finally:
            at_the_end()
    if ours and "vijax.app.folder.team" in sys.modules:
        sys.modules["vijax.app.folder.team"].leave(code)
    return code


def _run_and_report(words: list[str], debug: bool, at_the_end: Callable[[], None]) -> int:
    """The exit code of a command; prints an error as one line."""
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:  # that of a run says what is saved
        at_the_end()
        print(f"\nvijax: {interrupt if interrupt.args else 'stopped'}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Python would complain again when it flushes its buffer at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            raise
        print(f"vijax: {printable(_one_line(error, words[0]))}", file=sys.stderr)
        return 2 if _is_input_error(error) else 1


@contextlib.contextmanager
def _as_a_program(debug: bool) -> Iterator[None]:
    """Sets up the process: compiled programs are cached, and XLA's banners stay off the screen."""
    from vijax.app.plan.warned import warnings_in_a_line
    from vijax.app.settings.banners import filter_stderr

    _keep_compiled_programs()
    if debug:
        yield
        return
    with filter_stderr(), warnings_in_a_line():
        yield


def _run(words: list[str]) -> int:
    from vijax.app.settings.guide import GUIDE
    from vijax.extras import require_extra

    tyro = require_extra("tyro")
    command = tyro.extras.subcommand_cli_from_dict
    return int(command(COMMANDS, prog="vijax", description=GUIDE, args=_gather_settings(words)))


def _gather_settings(words: list[str]) -> list[str]:
    """The arguments with all values of `--set` as one list at the end.

    >>> _gather_settings(["fit", "--set", "a=1", "b=2", "c.toml", "--set=d=3"])
    ['fit', 'c.toml', '--set', 'a=1', 'b=2', 'd=3']
    """
    other_words: list[str] = []
    values: list[str] = []
    is_value = False
    for argument in words:
        if argument == "--set" or argument.startswith("--set="):
            is_value = True
            if argument != "--set":
                values.append(argument.removeprefix("--set="))
        elif is_value and "=" in argument and not argument.startswith("-"):
            values.append(argument)
        else:
            is_value = False
            other_words.append(argument)
    if values:
        return [*other_words, "--set", *values]
    return other_words


def _is_input_error(error: Exception) -> bool:
    from vijax.fitting.checkpoint import CheckpointError

    return isinstance(error, ValueError | OSError | ImportError | CheckpointError)


WITH_SETTINGS = ("fit", "init", "prepare")
"""Commands that take settings."""


def _one_line(error: Exception, command: str) -> str:
    """The message in the words of the command line; a fault of vijax has its kind too."""
    from vijax.app.plan.wording import to_command_line_terms
    from vijax.data.formulas.tokens import FormulaError

    if isinstance(error, FormulaError):
        return f"{to_command_line_terms(error.said)}\n{error.marked}"
    text = " ".join(str(error).split())
    if _is_input_error(error) and text:
        if command not in COMMANDS:
            return to_command_line_terms(text)
        options = inspect.signature(COMMANDS[command]).parameters
        return to_command_line_terms(text, options, command in WITH_SETTINGS)
    return f"{type(error).__name__}: {text} (a fault of vijax, it seems; --debug shows where)"


def _keep_compiled_programs() -> None:
    """Sets JAX's compilation cache to the user's cache folder, unless the user has set one."""
    import jax

    from vijax.data.reading.cache import cache_folder

    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


if __name__ == "__main__":
    sys.exit(main())
