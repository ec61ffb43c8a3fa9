"""Compiles the E-steps of vijax/xla/native while a wheel is built, also for an editable install.

Without a C++ compiler, or where it fails, the wheel is without them, and XLA does their work:
nobody needs a compiler. They are compiled for processors of three kinds, of which the library takes
the best that it finds itself on, so that a wheel may be carried to another machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The first that is supported: what is compiled for it runs with later ones, and not the other way
# round.
HEADERS = "jaxlib==0.7.2; python_version < '3.15'"
FLAGS = (
    "-O3",
    "-fPIC",
    "-std=c++17",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-Wno-psabi",
)
LEVELLED = ("kernels", "normals", "pairs", "gammas")
X86 = {
    "baseline": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"),
}


class CompiledESteps(BuildHookInterface):
    """What hatchling calls."""

    def dependencies(self) -> list[str]:
        """What is installed to build with."""
        return [HEADERS] if compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a wheel is built: compiles, and says that it is of this platform then."""
        if self.target_name != "wheel":
            return
        library = Path(self.root, "vijax", "xla", "native", "esteps.so")
        library.unlink(missing_ok=True)
        problem = compile_to(library)
        if problem:
            self.app.display_warning(
                f"The E-steps of vijax are not compiled, and XLA does their work: {problem}"
            )
            return
        build_data["artifacts"].append("/vijax/xla/native/esteps.so")
        build_data["pure_python"] = False
        build_data["tag"] = (
            f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        )


def compiler() -> str | None:
    """The user's, or the first that is found."""
    named = os.environ.get("CXX", "").split()
    return (
        shutil.which(named[0])
        if named
        else next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    )


def compile_to(library: Path) -> str:
    """Compiles and links; what went wrong, or nothing."""
    found, headers = compiler(), find_spec("jaxlib")
    if sys.platform == "win32" or not found:
        return "no C++ compiler was found (set CXX, or install g++ or clang)."
    if not headers or not headers.origin:
        return "jaxlib, whose headers they need, is not there."
    include = Path(headers.origin).parent / "include"
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    with tempfile.TemporaryDirectory() as folder:
        levels = X86 if is_x86 else {"baseline": ()}
        objects = []
        commands = []
        for name in LEVELLED:
            for level, more in levels.items():
                objects.append(Path(folder, f"{name}_{level}.o"))
                compiled = [f"-DLEVEL={level}", "-c", source(f"{name}.cc"), "-o", str(objects[-1])]
                commands.append([found, *FLAGS, *more, *compiled])
        calls = Path(folder, "calls.o")
        defined = ["-DVIJAX_X86"] if is_x86 else []
        commands += [
            [
                found,
                *FLAGS,
                *defined,
                "-isystem",
                str(include),
                "-c",
                source("calls.cc"),
                "-o",
                str(calls),
            ]
        ]
        commands += [[found, "-shared", *map(str, [*objects, calls]), "-o", str(library)]]
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return f"{' '.join(command)} said {done.stderr.strip()[:2000]}"
    return ""


def source(name: str) -> str:
    """Of this folder."""
    return str(Path(__file__).parent / "vijax" / "xla" / "native" / name)
