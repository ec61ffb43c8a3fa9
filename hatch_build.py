"""Compiles the E-steps of vijax/xla/native while a wheel is built, also for an editable install.

Without a C++ compiler, or where it fails, the wheel is without them, and XLA does their work:
nobody needs a compiler. They are compiled for processors of three kinds, of which the library takes
the best that it finds itself on, so that a wheel may be carried to another machine.

Four variables of the environment are read: CXX (the compiler, with its first arguments),
VIJAX_NATIVE (0 builds the wheel without E-steps, for any platform), and those by which Python's
other builders are told another platform: _PYTHON_HOST_PLATFORM and MACOSX_DEPLOYMENT_TARGET."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
HEADERS = ROOT / "third_party" / "xla"
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
OLDEST_MACOS = {"arm64": "11.0", "x86_64": "10.13"}


class CompiledESteps(BuildHookInterface):
    """The hook that hatchling calls."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles before a wheel is built, and then ties the wheel to this platform."""
        if self.target_name != "wheel":
            return
        library = Path(self.root, "vijax", "xla", "native", "esteps.so")
        library.unlink(missing_ok=True)
        if os.environ.get("VIJAX_NATIVE", "1") == "0":
            return
        problem = compile_to(library)
        if problem:
            self.app.display_warning(
                f"The E-steps of vijax are not compiled, and XLA does their work: {problem}"
            )
            return
        build_data["artifacts"].append("/vijax/xla/native/esteps.so")
        build_data["pure_python"] = False
        tag = target_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{tag}"


def target_platform() -> str:
    """The platform to compile for: linux-x86_64, macosx-11.0-arm64."""
    name = sysconfig.get_platform()
    if not name.startswith("macosx-"):
        return name
    machine = name.split("-")[-1]
    if machine not in OLDEST_MACOS:  # a Python for both kinds of processors; the compiler makes one
        machine = platform.machine()
    release = os.environ.get("MACOSX_DEPLOYMENT_TARGET", OLDEST_MACOS[machine])
    return f"macosx-{release}-{machine}"


def platform_flags(name: str) -> list[str]:
    """Flags that only one platform needs."""
    if not name.startswith("macosx-"):
        return []
    _, release, machine = name.split("-")
    return ["-arch", machine, f"-mmacosx-version-min={release}"]


def find_compiler() -> list[str]:
    """The user's compiler with its arguments, or the first of the usual ones; empty without one."""
    names = os.environ.get("CXX", "").strip()
    candidates = [shlex.split(names)] if names else [["c++"], ["g++"], ["clang++"]]
    for command in candidates:
        if shutil.which(command[0]):
            return command
    return []


def compile_to(library: Path) -> str:
    """Compiles and links; returns what went wrong, or an empty text."""
    compiler = find_compiler()
    name = target_platform()
    if name.startswith("win") or not compiler:
        return "no C++ compiler was found (set CXX, or install g++ or clang)."
    is_x86 = name.endswith(("x86_64", "amd64"))
    compiler += [*FLAGS, *platform_flags(name)]
    objects = []
    commands = []
    with tempfile.TemporaryDirectory() as folder:
        for part in LEVELLED:
            for level, level_flags in (X86 if is_x86 else {"baseline": ()}).items():
                objects.append(str(Path(folder, f"{part}_{level}.o")))
                flags = [*level_flags, f"-DLEVEL={level}"]
                commands.append([*compiler, *flags, "-c", source(part), "-o", objects[-1]])
        objects.append(str(Path(folder, "calls.o")))
        flags = ["-DVIJAX_X86"] if is_x86 else []
        flags += ["-isystem", str(HEADERS)]
        commands.append([*compiler, *flags, "-c", source("calls"), "-o", objects[-1]])
        commands.append([*compiler, "-shared", *objects, "-o", str(library)])
        for command in commands:
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                return f"{shlex.join(command)} said {run.stderr.strip()[:2000]}"
    return ""


def source(part: str) -> str:
    """The path of a source file of the E-steps."""
    return str(ROOT / "vijax" / "xla" / "native" / f"{part}.cc")
