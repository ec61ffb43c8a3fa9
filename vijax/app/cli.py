"""The command line: `vijax fit`, `resume`, `summary`, `topics`, `transform`, and the others."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence

from vijax.app.commands import COMMANDS
from vijax.fitting.interrupt import ignore_interrupts
from vijax.terminal import printable


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
