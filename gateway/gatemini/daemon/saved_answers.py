"""The answers that a proxy may give while a daemon starts: the last ones to `initialize`, `server/discover`, `tools/list`.

They are kept with a stamp of everything they depend on. The proxy compares it, and uses none that does not fit.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from gatemini import __version__
from gatemini.processes.own_files import read_own, replace_own
from gatemini.protocol.resources.instructions import instructions
from gatemini.proxy.memory import MOST_SAVED_BYTES, stamp_of
from gatemini.proxy.places import values_digest

if TYPE_CHECKING:
    from gatemini.app import App

logger = logging.getLogger(__name__)

MOST_ANSWERS = 60
"""Three methods for twenty pairs of client and revision."""

Stamp = list[str | int]


def stamps_of(files: Iterable[Path]) -> list[Stamp]:
    """Each file with what tells it from its other versions."""
    return sorted([path, *stamp_of(path)] for path in map(str, files))


class SavedAnswers:
    """The answers of one daemon."""

    def __init__(self, path: str, app: App) -> None:
        self._path = Path(path)
        self._app = app
        self._hashed: tuple[tuple[int, str], str] = (-1, ""), ""
        self._answers: OrderedDict[str, tuple[str, object]] = OrderedDict()
        self._written: object = None
        self._load()

    def _load(self) -> None:
        """Take over what an earlier daemon kept, while clients would get the same ones."""
        try:
            kept = orjson.loads(read_own(self._path, MOST_SAVED_BYTES))
            if kept["version"] == __version__:
                content = kept["content"]
                self._answers.update({key: (text, content) for key, text in kept["answers"].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return  # none, or not ours: the next answers replace it

    def put(self, key: str, result: Any) -> None:
        """Keep an answer that a client gets."""
        self._answers[key] = orjson.dumps(result).decode(), self._content()
        self._answers.move_to_end(key)
        while len(self._answers) > MOST_ANSWERS:
            self._answers.popitem(last=False)

    def document(
        self,
        stamps: Sequence[Stamp],
        names: Iterable[str],
        environ: Mapping[str, str],
        start_seconds: float,
        *,
        instant: bool,
    ) -> bytes | None:
        """The content of the file, None where it is the one that was written last.

        `instant`: with the answers; else only with what a proxy needs to know of the next start.
        """
        now = self._content()
        kept = self._answers.items() if instant else ()
        answers = {key: text for key, (text, content) in kept if content == now}
        named = sorted(names)
        whole = (answers, stamps, named, values_digest(named, dict(environ)), start_seconds)
        if whole == self._written:
            return None
        self._written = whole
        return orjson.dumps(
            {
                "version": __version__,
                "files": stamps,
                "names": named,
                "values": whole[3],
                "content": now,
                "start_timeout": start_seconds,
                "answers": answers,
            }
        )

    def _content(self) -> str:
        """A hash of what clients see of the tools now: instructions and definitions."""
        catalog, door = self._app.catalog, self._app.chain.door
        version = self._app.registry.version, "" if door is None else door.revision
        if self._hashed[0] != version:
            shown = orjson.dumps([catalog.definitions(), instructions(catalog.inventory()), version[1]])
            self._hashed = version, hashlib.sha256(shown).hexdigest()
        return self._hashed[1]

    def write(self, document: bytes) -> None:
        """Replace the file; failing costs the next client some of its time and nothing else."""
        try:
            replace_own(self._path, document)
        except OSError as error:
            logger.warning("the answers for the next start are not kept: %s", error)
