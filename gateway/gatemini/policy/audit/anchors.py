"""Send the head of the log to a place that its writer does not control: a file, a command, an address."""

from __future__ import annotations

import os
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import msgspec

from gatemini.config.model.audit import AnchorConfig
from gatemini.policy.audit.record import Head, is_too_deep, lines_of, members
from gatemini.processes.child_environment import child_environment
from gatemini.processes.children import Children
from gatemini.processes.command import OutputTooLarge, describe_exit, run_to_end

try:
    import fcntl
except ImportError:  # Windows, where one file of anchors is for one gateway
    fcntl = None  # type: ignore[assignment]

ANCHOR_SECONDS = 10.0
"""The longest that one command or one address may take."""
POLL_SECONDS = 0.01
MAX_OUTPUT_BYTES = 64 << 10
"""A command that prints more is stopped: nothing reads what it prints."""


def is_anchored(config: AnchorConfig) -> bool:
    """Whether any place for anchors is configured."""
    return bool(config.file or config.command or config.url)


async def send_anchor(config: AnchorConfig, head: Head) -> list[str]:
    """Send one head to every configured place; return what went wrong, one sentence each."""
    line = anchor_line(head)
    failed: list[str] = []
    if config.file is not None:
        try:
            await anyio.to_thread.run_sync(_append, config.file, line)
        except OSError as error:
            failed.append(f"{config.file}: {error.strerror or error}")
    if config.command:
        failed += await _run(config.command, line)
    if config.url is not None:
        failed += await _posted(config.url, line)
    return failed


async def _run(command: Sequence[str], line: bytes) -> list[str]:
    """Give the line to a program on its standard input, in the clean environment of all children."""
    children = Children()
    try:
        with anyio.fail_after(ANCHOR_SECONDS):
            done = await run_to_end(
                command[0],
                command,
                environment=child_environment({}),
                cwd=None,
                stdin=line,
                max_bytes=MAX_OUTPUT_BYTES,
                children=children,
                grace=0,
            )
    except TimeoutError:
        return [f"{command[0]} took more than {ANCHOR_SECONDS:g} s"]
    except (OSError, ValueError, OutputTooLarge) as error:
        return [f"{command[0]}: {error or 'it printed too much'}"]
    finally:
        with anyio.CancelScope(shield=True):
            await children.close()
    return [f"{command[0]} {describe_exit(done.code)}"] if done.code else []


async def _posted(url: str, line: bytes) -> list[str]:
    """Post the line within `ANCHOR_SECONDS`, for the server may never end its answer; return what failed."""
    try:
        with anyio.fail_after(ANCHOR_SECONDS):
            await anyio.to_thread.run_sync(_post, url, line, abandon_on_cancel=True)
    except TimeoutError:
        return [f"{urlsplit(url).hostname} took more than {ANCHOR_SECONDS:g} s"]
    except (OSError, ValueError, HTTPException) as error:
        return [f"{urlsplit(url).hostname}: {error or type(error).__name__}"]
    return []


def anchor_line(head: Head) -> bytes:
    """Return the line of one anchor: `{instance, seq, hash, file, time}`."""
    return b"{" + members({**asdict(head), "time": datetime.now(UTC)}) + b"}\n"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Take a redirect for an error: it would be followed by a GET, which has no line in it."""

    def redirect_request(self, *_: Any) -> None:
        return None


_DIRECT = urllib.request.build_opener(_NoRedirect)


def _post(url: str, line: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, line, headers)  # noqa: S310 - the model allows http and https
    try:
        _DIRECT.open(request, timeout=ANCHOR_SECONDS).close()
    except HTTPError as error:
        error.close()  # it is the answer, too
        raise


def _append(path: Path, line: bytes) -> None:
    """Append a whole line or none of it; a part of a line that a crash has left is ended first. Raises OSError.

    The gateways of one log share the file: one at a time may write, so that none cuts back what another has written.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        _lock(handle)
        if _is_torn(path):
            line = b"\n" + line
        size, done = os.fstat(handle).st_size, 0
        try:
            while done < len(line):
                done += os.write(handle, line[done:])
            os.fsync(handle)
        except OSError:
            if os.fstat(handle).st_size == size + done:  # else another has written where there are no locks
                os.ftruncate(handle, size)  # a torn line would make the whole file unreadable
            raise
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file until it is closed; blocks. Raises TimeoutError where another process keeps it for `ANCHOR_SECONDS`."""
    last = time.monotonic() + ANCHOR_SECONDS
    while fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > last:
                raise TimeoutError(f"another process has had its lock for {ANCHOR_SECONDS:g} s") from None
            time.sleep(POLL_SECONDS)
        except OSError:  # a file system without locks
            return
        else:
            return


def _is_torn(path: Path) -> bool:
    """Whether a file ends within a line; one that may only be written is taken to end with a line."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return False
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"
    except (FileNotFoundError, PermissionError):
        return False


def read_anchors(path: Path) -> tuple[list[Head], list[int]]:
    """Return the anchors of a file, and the numbers of lines that are none."""
    heads: list[Head] = []
    others: list[int] = []
    with path.open("rb") as file:
        for number, line in enumerate(lines_of(file), 1):
            head = None if is_too_deep(line) else _head(line)
            if head is None:
                others.append(number)
            else:
                heads.append(head)
    return heads, others


def _head(line: bytes) -> Head | None:
    try:
        return msgspec.json.decode(line, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
