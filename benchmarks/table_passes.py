"""Readings and writings of whole tables (K x V numbers) in a step of topics, the tables that it
holds beside its state, and its CPU seconds.

    python benchmarks/table_passes.py [K] [V] [--list] [--seconds]

The program is that of `vijax.fit`: a chunk of steps, its state donated, compiled for the CPU. Each
instruction of the loop's body counts the tables among its operands and results. A gather or a
scatter touches rows only, a copy of a pointer nothing; branches that only run where a number is
not finite are counted apart. `as on accelerators` is traced without compiled kernels, in the chunks
of documents of an accelerator, and compiled for the CPU too: fusions of a GPU may differ.

`--list` prints the instructions; `--seconds` runs the steps."""

import contextlib
import functools
import math
import os
import re
import sys
import time
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import vijax as vi
from vijax.fitting.loop import _chunk, stack
from vijax.xla.compiler import STEP, usable_options

GROUPS, WORDS = 256, 128
FREE = ("parameter", "get-tuple-element", "tuple", "bitcast", "constant", "while", "conditional")
"""Instructions that move no numbers by themselves."""
BYTES = {"f64": 8, "f32": 4, "s32": 4, "u32": 4, "s64": 8, "u64": 8, "pred": 1, "bf16": 2, "u8": 1}


class Instruction(NamedTuple):
    """One line of a compiled program."""

    name: str
    shape: str
    kind: str
    operands: tuple[str, ...]
    calls: tuple[str, ...]
    source: str
    number: int | None  # of a parameter


Program = dict[str, dict[str, Instruction]]


# --- reading a program ----------------------------------------------------------------------------
def parse(text: str) -> tuple[Program, str]:
    """The instructions of each computation of a compiled program, and the name of its entry."""
    program: Program = {}
    entry = ""
    current: dict[str, Instruction] = {}
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%?([\w.\-]+) \(.*\{\s*$", line)
        if head:
            current = program.setdefault(head[2], {})
            entry = head[2] if head[1] else entry
            continue
        instruction = parse_line(line)
        if instruction is not None:
            current[instruction.name] = instruction
    return program, entry


def parse_line(line: str) -> Instruction | None:
    """The instruction of a line, if it has one."""
    found = re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$", line)
    if not found:
        return None
    name, shape, kind, rest = found.groups()
    rest = re.sub(r"/\*.*?\*/", "", rest)
    arguments, _, attributes = rest.partition(")")
    operands = tuple(re.findall(r"%([\w.\-]+)", arguments))
    calls = tuple(
        re.findall(
            r"(?:calls|to_apply|body|true_computation|false_computation)=%?([\w.\-]+)", attributes
        )
    )
    branches = re.search(r"branch_computations=\{(.*?)\}", attributes)
    if branches:
        calls += tuple(re.findall(r"%?([\w.\-]+)", branches[1]))
    source = re.search(r'op_name="([^"]*)"', attributes)
    number = int(arguments) if kind == "parameter" else None
    return Instruction(name, shape, kind, operands, calls, source[1] if source else "", number)


def table_bytes(shape: str, size: int) -> int:
    """Bytes of the arrays of a shape that have `size` numbers."""
    arrays = re.findall(r"(\w+)\[([\d,]*)\]", shape)
    counts = [(kind, math.prod(int(n) for n in dims.split(",") if n)) for kind, dims in arrays]
    return sum(BYTES.get(kind, 4) * count for kind, count in counts if size <= count < 2 * size)


def touch(program: Program, instruction: Instruction, position: int) -> str:
    """The use of an operand: "all", "blocks", "rows" (a gather or scatter), or "target" (of an
    update in place)."""
    kind = instruction.kind
    if kind != "fusion":
        return use_of(instruction, kind, position)
    inside = program[instruction.calls[0]]
    parameter = next(x for x in inside.values() if x.number == position)
    uses = set()
    for x in inside.values():
        for i, name in enumerate(x.operands):
            if name == parameter.name:
                uses.add(use_of(x, x.kind, i))
    return next((use for use in ("all", "blocks", "rows", "target") if use in uses), "rows")


def use_of(instruction: Instruction, kind: str, position: int) -> str:
    """The use of an operand by an instruction that is no fusion."""
    if kind == "dynamic-slice":
        return "blocks"
    if kind == "slice":  # what a loop over blocks leaves
        return "rows"
    if kind in ("dynamic-update-slice", "scatter") and position == 0:
        return "target"
    return "rows" if kind in ("gather", "scatter") else "all"


def writes(program: Program, instruction: Instruction) -> str:
    """The way in which an instruction writes its result: "all", "blocks" or "rows"."""
    kinds = {instruction.kind}
    if instruction.kind == "fusion":
        kinds = {x.kind for x in program[instruction.calls[0]].values()}
    if "dynamic-update-slice" in kinds:
        return "blocks"
    return "rows" if "scatter" in kinds else "all"


class Pass(NamedTuple):
    """An instruction that touches tables: how many tables it reads and writes."""

    reads: float
    writes: float
    instruction: Instruction
    usual: bool


def passes(program: Program, computation: str, size: int, usual: bool = True) -> Iterator[Pass]:
    """The instructions of a computation, and of those it calls, that touch tables. In a loop over
    blocks a table is read from memory once: its block is in a cache then."""
    instructions = program[computation]
    cached = set()
    for x in instructions.values():
        if x.kind == "conditional":
            for branch in x.calls:
                yield from passes(program, branch, size, usual=False)
        elif x.kind in ("while", "call"):
            for body in x.calls:
                yield from passes(program, body, size, usual)
        elif x.kind not in FREE:
            read = 0
            for i, name in enumerate(x.operands):
                use = touch(program, x, i) if name in instructions else "rows"
                if use == "all" or (use == "blocks" and name not in cached):
                    read += table_bytes(instructions[name].shape, size)
                if use == "blocks":
                    cached.add(name)
            if x.kind == "custom-call" and len(x.operands) > 2:  # E-steps touch rows
                continue
            written = 0 if writes(program, x) == "rows" else table_bytes(x.shape, size)
            if read or written:
                yield Pass(read / (4 * size), written / (4 * size), x, usual)


# --- the programs ---------------------------------------------------------------------------------
def batches_of(vocab_size: int, count: int, offset: int = 0) -> list[vi.Minibatch]:
    """Batches of documents of different words."""
    rng = np.random.default_rng(offset)
    batches = []
    for _ in range(count):
        words = rng.integers(0, vocab_size, (GROUPS, WORDS), np.int32)
        counts, weights = np.ones((GROUPS, WORDS), np.float32), np.ones(GROUPS, np.float32)
        docs = vi.Documents(words, counts, weights, WORDS)
        rows = (np.arange(GROUPS, dtype=np.int32),)
        batches.append(vi.Minibatch((docs,), np.float32(1e6), rows=rows))
    return batches


def algorithms(num_topics: int, vocab_size: int) -> dict[str, vi.Algorithm]:
    """The rows that are read."""
    model = vi.models.lda(num_topics, vocab_size)
    cvb0 = vi.models.lda(num_topics, vocab_size, estep=vi.estep.cvb0())
    return {
        "svi": vi.svi(model),
        "svi, penalty each 10": vi.svi(model, penalty_every=10),
        "ssvi_a, cvb0": vi.ssvi_a(cvb0),
        "svi, averaged": vi.averaged(vi.svi(model), 10),
    }


def lowered(alg: vi.Algorithm, batch: vi.Minibatch, length: int = 1):
    """The chunk of `vijax.fit`, and its arguments but for the state."""
    key = jax.random.key(0)
    chunk = functools.partial(_chunk, weakref.ref(alg.step))
    jit = jax.jit(chunk, static_argnums=(0, 6), donate_argnums=3)
    batches = jax.tree.map(jnp.asarray, stack(iter([batch] * length), length, length))
    state = jax.eval_shape(alg.init, key, batch)
    rest = batches, np.int32(length), False, np.int32(10), np.bool_(False)
    return jit.lower(length, key, {}, state, *rest), rest


@contextlib.contextmanager
def as_on_accelerators(there: bool) -> Iterator[None]:
    """Programs are traced as on an accelerator."""
    if not there:
        yield
        return
    with (
        mock.patch.dict(os.environ, {"VIJAX_NATIVE": "0"}),
        mock.patch.object(jax, "default_backend", return_value="gpu"),
    ):
        jax.clear_caches()
        yield
    jax.clear_caches()


class Reading(NamedTuple):
    """What a compiled step does with tables, in tables of K x V numbers.

    Attributes:
      passes: the instructions that touch tables.
      temporary: memory beside the state.
      donated: memory of the state that is written in place.
      compiled: the program.
      rest: its arguments after the state.
    """

    passes: list[Pass]
    temporary: float
    donated: float
    compiled: Any
    rest: Any

    @classmethod
    def compile(
        cls, name: str, num_topics: int, vocab_size: int, on_accelerator: bool = False
    ) -> "Reading":
        """The reading of a row of `algorithms`."""
        size = num_topics * vocab_size
        batch = batches_of(vocab_size, 1)[0]
        alg = algorithms(num_topics, vocab_size)[name]
        with as_on_accelerators(on_accelerator):
            program, rest = lowered(alg, batch)
        compiled = program.compile(None if on_accelerator else usable_options(STEP))
        plan = compiled.memory_analysis()
        parsed, entry = parse(compiled.as_text())
        return cls(
            list(passes(parsed, entry, size)),
            plan.temp_size_in_bytes / (4 * size),
            plan.alias_size_in_bytes // (4 * size),
            compiled,
            rest,
        )

    @property
    def touched(self) -> float:
        """Tables read and written at each step."""
        return sum(x.reads + x.writes for x in self.passes if x.usual)

    @property
    def rare(self) -> float:
        """Tables read and written in branches: of the penalty, and of numbers not finite."""
        return sum(x.reads + x.writes for x in self.passes if not x.usual)


def measure(
    name: str, num_topics: int, vocab_size: int, on_accelerator: bool, lists: bool, runs: bool
) -> None:
    """Prints a row of the table."""
    reading = Reading.compile(name, num_topics, vocab_size, on_accelerator)
    seconds = ""
    if runs and not on_accelerator:
        alg = algorithms(num_topics, vocab_size)[name]
        batch = batches_of(vocab_size, 1)[0]
        seconds = f"{run(alg, reading.compiled, batch, reading.rest):.3f}"
    print(
        f"| {name} | {'accelerators' if on_accelerator else 'the CPU'} | {reading.touched:.0f} | "
        f"{reading.rare:.0f} | {reading.temporary:.1f} | {reading.donated} | {seconds} |",
        flush=True,
    )
    if lists:
        for x in reading.passes:
            mark = " " if x.usual else "?"
            line = x.instruction
            print(
                f"   {mark} {x.reads:5.2f} + {x.writes:5.2f}  {line.kind:14s} {line.name:40s} "
                f"{line.shape[:40]:40s} {line.source[-140:]}"
            )


def run(alg: vi.Algorithm, compiled, batch: vi.Minibatch, rest, count: int = 10) -> float:
    """CPU seconds of a step."""
    key = jax.random.key(0)
    state = jax.jit(alg.init)(key, batch)
    batches, num_steps, _, *numbers = rest

    def step(state: Any) -> Any:
        return compiled(key, {}, state, batches, num_steps, *numbers)[0]

    state = jax.block_until_ready(step(state))
    begin = time.process_time()
    for _ in range(count):
        state = step(state)
    jax.block_until_ready(state)
    return (time.process_time() - begin) / count


def main() -> None:
    flags = {x for x in sys.argv[1:] if x.startswith("--")}
    numbers = [int(x) for x in sys.argv[1:] if x.isdigit()]
    num_topics, vocab_size = numbers or (100, 50_000)
    chosen = [x.removeprefix("--row=") for x in flags if x.startswith("--row=")]
    print(f"K x V = {num_topics:,} x {vocab_size:,}, {GROUPS} documents of {WORDS} words\n")
    print(
        "| step | traced for | tables read and written | in branches | tables beside the state | "
        "tables in place | CPU s |\n" + "|---" * 7 + "|"
    )
    for name in chosen or algorithms(num_topics, vocab_size):
        for there in (False, True):
            measure(name, num_topics, vocab_size, there, "--list" in flags, "--seconds" in flags)


if __name__ == "__main__":
    main()
