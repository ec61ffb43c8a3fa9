"""Python as on Windows, as far as another system can play it: modules and functions that Windows
lacks are gone, an open file cannot be replaced or removed, names are refused that Windows refuses.
`emulate()` does it, for this process and for good."""

import asyncio  # noqa: F401 (it needs fcntl itself on other systems)
import builtins
import errno
import io
import multiprocessing.resource_tracker  # noqa: F401
import os
import re
import shutil  # noqa: F401
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import types
from fcntl import LOCK_EX, LOCK_NB, flock

MODULES = (
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "readline",
    "resource",
    "syslog",
    "termios",
    "tty",
)
FUNCTIONS = """
    chown chroot fchmod fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpgrp
    getpriority getsid getuid initgroups killpg lchown lockf mkfifo nice pread pwrite
    sched_getaffinity sched_yield set_blocking setsid statvfs sync sysconf sysconf_names tcgetpgrp
    wait wait3 wait4 O_DIRECTORY O_NOFOLLOW O_NONBLOCK O_SYNC
"""
SIGNALS = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH
    alarm pause pthread_kill pthread_sigmask setitimer sigpending sigwait siginterrupt
"""
REFUSED = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$', re.I)


def emulate():
    for name in MODULES:
        sys.modules[name] = None
    sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=2, locking=lock_bytes)
    for module, names in ((os, FUNCTIONS), (signal, SIGNALS)):
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in ("replace", "rename"):
        setattr(os, name, refuse_open_files(getattr(os, name), name == "rename"))
    for name in ("remove", "unlink", "rmdir"):
        setattr(os, name, refuse_open_files(getattr(os, name)))
    os.symlink = refuse_links
    os.open = refuse_folders(os.open)
    os.mkdir = check_name(os.mkdir)
    signal.set_wakeup_fd = set_wakeup_fd
    builtins.open = io.open = check_name(io.open)


def set_wakeup_fd(number, *, _set=signal.set_wakeup_fd, _unblock=os.set_blocking, **more):
    """A pipe that blocks will do on Windows."""
    if number >= 0:
        _unblock(number, False)
    return _set(number, **more)


def lock_bytes(descriptor, mode, size):
    assert (mode, size) == (2, 1)
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None


def open_files():
    """The paths that this process has open or mapped into memory."""
    paths = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the descriptor of the listing itself
    with ORIGINAL_OPEN("/proc/self/maps", encoding="utf-8") as lines:
        fields = (line.rstrip("\n").split(maxsplit=5) for line in lines)
        return paths | {parts[5] for parts in fields if len(parts) == 6}


def refuse_open_files(function, is_rename=False):
    def call(*paths, **more):
        if more.get("dir_fd") is None:
            places = [os.path.realpath(os.path.dirname(os.path.abspath(p))) for p in paths]
            names = [
                os.path.join(x, os.path.basename(p)) for x, p in zip(places, paths, strict=True)
            ]
            busy = open_files() & {os.fsdecode(name) for name in names}
            if busy:
                raise PermissionError(errno.EACCES, "used by another process", *busy)
            if is_rename and os.path.lexists(paths[1]):
                raise FileExistsError(errno.EEXIST, "exists", str(paths[1]))
        return function(*paths, **more)

    return call


def refuse_folders(function):
    def call(path, *args, **more):
        if isinstance(path, (str, os.PathLike)) and os.path.isdir(path):
            raise PermissionError(errno.EACCES, "a folder", str(path))
        return check_name(function)(path, *args, **more)

    return call


def check_name(function):
    def call(path, *args, **more):
        if isinstance(path, (str, os.PathLike)) and more.get("dir_fd") is None:
            name = os.path.basename(os.fspath(path))
            if isinstance(name, str) and REFUSED.search(name) and name not in ("", ".", ".."):
                raise OSError(errno.EINVAL, "a name that Windows refuses", str(path))
        return function(path, *args, **more)

    return call


def refuse_links(*_, **__):
    raise OSError("a required privilege is not held")


ORIGINAL_OPEN = open
