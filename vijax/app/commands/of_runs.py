"""Commands that make runs, go on with them, compare, check or edit them."""

from __future__ import annotations

from pathlib import Path

from vijax.app.commands.endings import UNUSABLE, end, end_of_sweep, end_of_team
from vijax.app.settings.progress import say_to_stderr
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
        return end_of_team(*fit_together(config, set, data, out, cluster))
    _check_alone(coordinator=coordinator, num_processes=num_processes, process_id=process_id)
    set = set if devices is None else (*set, f"fit.devices={devices}")
    if sweep is not None:
        from vijax.app.runs.sweep import sweep as sweep_over

        return end_of_sweep(*sweep_over(config, set, data, out, sweep, say_to_stderr))

    from vijax.app.plan.config import load_config
    from vijax.app.runs.run import start

    return end(start(load_config(config, set, data), out))


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
        return end_of_team(*resume_together(run, cluster))
    _check_alone(coordinator=coordinator, num_processes=num_processes, process_id=process_id)
    from vijax.app.folder.team import Alone
    from vijax.app.runs.run import resume
    from vijax.app.runs.sweep import is_sweep, resume_sweep

    if is_sweep(run):
        if devices is not None:
            raise ValueError(
                f"devices: expected none for a sweep; write fit.devices in {run / 'config.toml'}"
            )
        return end_of_sweep(run, resume_sweep(run, say_to_stderr))
    return end(resume(run, team=Alone(devices)))


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
    return end(edit_run(run, edits, out, training, seed, say_to_stderr))
