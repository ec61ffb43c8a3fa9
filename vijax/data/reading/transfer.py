"""One file over HTTP, within limits of size and time, gone on with where an earlier try broke off."""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from vijax.data.reading.checks import DataError, fail

BLOCK_BYTES = 1 << 16


@dataclasses.dataclass(frozen=True)
class Limits:
    """How large a file may be, how long it may take, and how long nothing may come."""

    num_bytes: float = 20e9
    seconds: float = 7200.0
    stall_seconds: float = 30.0


class Partial:
    """What has come of a file, and what the server called that state of it (its ETag or time)."""

    def __init__(self, path: Path):
        self.path = path
        self._note = path.with_name(f"{path.name}.json")

    def validator(self, url: str) -> str | None:
        """What to ask by whether the file is still the same; None when there is nothing to go on with."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            return str(note["validator"]) if note["url"] == url and self.path.stat().st_size > 0 else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def keep(self, url: str, validator: str | None) -> None:
        """Notes what the server called the file, so that a later try may go on."""
        if validator is None:
            self._note.unlink(missing_ok=True)
        else:
            self._note.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")

    def discard(self) -> None:
        """Removes it."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections to http and https addresses; Python's own refuses local files, but not ftp."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.lower().startswith(("http://", "https://")):
            raise urllib.error.HTTPError(newurl, code, f"Redirection to url {newurl!r} is not allowed", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def transfer(url: str, part: Partial, limits: Limits) -> bool:
    """Fetches `url` into `part`, and says whether that went on from an earlier try.

    Raises:
      DataError: what went wrong, and what to do; what has come stays for the next try if it can be gone on with.
    """
    began = time.monotonic()
    try:
        with _open(url, part, limits) as answer:
            went_on = answer.status == 206
            _receive(url, answer, part, limits, began)
            return went_on
    except DataError:
        raise
    except urllib.error.HTTPError as error:
        if error.code == 416 and part.path.exists():  # the file is shorter than what has come
            part.discard()
            return transfer(url, part, limits)
        led_away = 300 <= error.code < 400
        remedy = "download it yourself, and name the file" if led_away else "check the address"
        raise fail(url, "a file to download", f"{error.code} {error.reason}", remedy) from error
    except TimeoutError as error:
        raise _stalled(url, part, limits) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError | socket.timeout):
            raise _stalled(url, part, limits) from error
        said = str(reason) or type(error).__name__
        raise fail(url, "a file to download", said, f"check the address and the network{_kept(part, url)}") from error


def _open(url: str, part: Partial, limits: Limits) -> http.client.HTTPResponse:
    headers = {"User-Agent": "vijax", "Accept-Encoding": "identity"}
    if validator := part.validator(url):
        headers |= {"Range": f"bytes={part.path.stat().st_size}-", "If-Range": validator}
    opener = urllib.request.build_opener(_Redirects)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=limits.stall_seconds)


def _receive(url: str, answer: http.client.HTTPResponse, part: Partial, limits: Limits, began: float) -> None:
    come = _place(answer)
    if come is None or come != (part.path.stat().st_size if come else 0):
        part.discard()
        raise fail(url, "the part that was asked for", answer.headers.get("Content-Range", "another"), "fetch again")
    length = answer.headers.get("Content-Length", "")
    total = come + int(length) if length.isdigit() else None
    if total is not None and total > limits.num_bytes:
        part.discard()
        raise _too_large(url, total, limits)
    part.keep(url, _validator(answer))
    with part.path.open("ab" if come else "wb") as file:
        while block := answer.read1(BLOCK_BYTES):
            come += len(block)
            if come > limits.num_bytes:
                part.discard()
                raise _too_large(url, come, limits)
            file.write(block)
            if time.monotonic() - began > limits.seconds:
                got = f"{_megabytes(come)} in that time"
                remedy = f"allow more, by the environment variable VIJAX_DOWNLOAD_MINUTES{_kept(part, url)}"
                raise fail(url, f"a file within {limits.seconds / 60:g} minutes", got, remedy)
    if total is not None and come < total:
        got = f"{_megabytes(come)} of {_megabytes(total)}, and the end of the connection"
        raise fail(url, "a whole file", got, f"fetch again{_kept(part, url)}")


def _place(answer: http.client.HTTPResponse) -> int | None:
    """At which byte of the file the answer begins; None if it does not say so."""
    if answer.status != 206:
        return 0
    unit, _, interval = answer.headers.get("Content-Range", "").partition(" ")
    first = interval.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdigit() else None


def _validator(answer: http.client.HTTPResponse) -> str | None:
    """A strong ETag, or else the time of the last change, if the server takes ranges; of what is packed, none."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        return None
    if answer.status != 206 and answer.headers.get("Accept-Ranges", "").lower() != "bytes":
        return None
    etag = answer.headers.get("ETag", "W/")
    return answer.headers.get("Last-Modified") if etag.startswith("W/") else etag


def _stalled(url: str, part: Partial, limits: Limits) -> DataError:
    come = part.path.stat().st_size if part.path.exists() else 0
    got = f"nothing for {limits.stall_seconds:g} seconds" + (f", after {_megabytes(come)}" if come else "")
    return fail(url, "a file to download", got, f"check the network and try again{_kept(part, url)}")


def _too_large(url: str, size: int, limits: Limits) -> DataError:
    remedy = "allow more, by the environment variable VIJAX_DOWNLOAD_GB, or download it yourself and name the file"
    return fail(url, f"a file of at most {_megabytes(limits.num_bytes)}", f"{_megabytes(size)} or more", remedy)


def _kept(part: Partial, url: str) -> str:
    return "; what has come is kept, and the next try goes on from there" if part.validator(url) else ""


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.3g} MB" if size < 1e9 else f"{size / 1e9:,.3g} GB"
