"""Demo backend `notes`: Markdown notes as files in a private temporary folder.

The folder is made when a gateway connects and removed when it disconnects.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.toolbox import ADDS, DESTROYS, SETS, Refused, Toolbox

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,63}$"
"""Names become file names, so no character is allowed that could leave the folder."""

_MAX_NOTES = 1000
_MAX_CHARACTERS = 100_000

_FIRST_NOTES = {
    "welcome": "# Welcome\n\nThese notes are files in a temporary folder. They vanish with the gateway.\n",
    "supplier contacts": "# Suppliers\n\n- Lamps: Northlight, lead time 12 days\n- Desks: Oak & Iron, lead time 21 days\n",
    "returns policy": "# Returns\n\nThirty days, unused, with the receipt. Refunds go out within 5 business days.\n",
}


@asynccontextmanager
async def _folder(_server: Server[Path]) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gatemini-notes-") as folder:
        path = Path(folder)
        for name, text in _FIRST_NOTES.items():
            _file(path, name).write_text(text, encoding="utf-8")
        yield path


toolbox: Toolbox[Path] = Toolbox(
    "notes", "Short Markdown notes: write, append, read, search, delete.", _folder
)


Name = Annotated[str, Field(pattern=_NAME, description="Name of the note")]
Markdown = Annotated[str, Field(max_length=_MAX_CHARACTERS, description="Markdown")]


class Note(BaseModel):
    name: str
    characters: int
    changed: str = Field(description="ISO 8601, UTC")


class NoteText(Note):
    text: str


class Notes(BaseModel):
    notes: list[Note]


@toolbox.tool()
def list_notes(folder: Path) -> Notes:
    """List all notes with their size and the time of the last change."""
    return Notes(notes=[_note(path) for path in sorted(folder.glob("*.md"))])


@toolbox.tool()
def read_note(folder: Path, name: Name) -> NoteText:
    """Read the text of one note."""
    path = _existing(folder, name)
    return NoteText(**_note(path).model_dump(), text=path.read_text(encoding="utf-8"))


@toolbox.tool(SETS)
def write_note(folder: Path, name: Name, text: Markdown) -> Note:
    """Write a note; one of the same name is replaced."""
    path = _file(folder, name)
    if not path.exists() and sum(1 for _ in folder.glob("*.md")) >= _MAX_NOTES:
        raise Refused(f"there are {_MAX_NOTES} notes already; delete one first")
    path.write_text(text, encoding="utf-8")
    return _note(path)


@toolbox.tool(ADDS)
def append_note(folder: Path, name: Name, text: Markdown) -> Note:
    """Add text at the end of an existing note."""
    path = _existing(folder, name)
    if len(path.read_text(encoding="utf-8")) + len(text) > _MAX_CHARACTERS:
        raise Refused(f"a note holds at most {_MAX_CHARACTERS} characters")
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return _note(path)


class Match(BaseModel):
    name: str
    line: int
    text: str


class Matches(BaseModel):
    matches: list[Match]


@toolbox.tool()
def search_notes(
    folder: Path,
    query: Annotated[
        str, Field(min_length=1, description="Text to look for; upper and lower case are the same")
    ],
) -> Matches:
    """Find the lines of all notes that contain a text."""
    wanted = query.casefold()
    return Matches(
        matches=[
            Match(name=path.stem, line=number, text=line)
            for path in sorted(folder.glob("*.md"))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if wanted in line.casefold()
        ]
    )


@toolbox.tool(DESTROYS)
def delete_note(folder: Path, name: Name) -> str:
    """Delete a note for good. There is no bin to get it back from."""
    _existing(folder, name).unlink()
    return f"deleted {name}"


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.md"


def _existing(folder: Path, name: str) -> Path:
    path = _file(folder, name)
    if not path.exists():
        names = ", ".join(other.stem for other in sorted(folder.glob("*.md"))[:10])
        raise Refused(f"there is no note {name!r}; notes: {names}")
    return path


def _note(path: Path) -> Note:
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return Note(
        name=path.stem,
        characters=len(path.read_text(encoding="utf-8")),
        changed=changed.isoformat(timespec="seconds"),
    )


server = toolbox.server()
