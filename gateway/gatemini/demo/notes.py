"""Demo backend `notes`: Markdown notes as files in a private temporary folder.

The folder is made when a gateway connects and removed when it disconnects.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.toolbox import ADDS, DESTROYS, SETS, Arguments, Refused, Toolbox

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


class Named(Arguments):
    name: str = Field(pattern=_NAME, description="Name of the note")


class Written(Named):
    text: str = Field(max_length=_MAX_CHARACTERS, description="Markdown")


class Note(BaseModel):
    name: str
    characters: int
    changed: str = Field(description="ISO 8601, UTC")


class NoteText(Note):
    text: str


class Notes(BaseModel):
    notes: list[Note]


class Everything(Arguments):
    pass


@toolbox.tool(
    "list_notes", "List all notes with their size and the time of the last change.", Everything, gives=Notes
)
def list_notes(folder: Path, _arguments: Everything) -> Notes:
    return Notes(notes=[_note(path) for path in sorted(folder.glob("*.md"))])


@toolbox.tool("read_note", "Read the text of one note.", Named, gives=NoteText)
def read_note(folder: Path, arguments: Named) -> NoteText:
    path = _existing(folder, arguments.name)
    return NoteText(**_note(path).model_dump(), text=path.read_text(encoding="utf-8"))


@toolbox.tool(
    "write_note", "Write a note; one of the same name is replaced.", Written, gives=Note, hints=SETS
)
def write_note(folder: Path, arguments: Written) -> Note:
    path = _file(folder, arguments.name)
    if not path.exists() and sum(1 for _ in folder.glob("*.md")) >= _MAX_NOTES:
        raise Refused(f"there are {_MAX_NOTES} notes already; delete one first")
    path.write_text(arguments.text, encoding="utf-8")
    return _note(path)


@toolbox.tool("append_note", "Add text at the end of an existing note.", Written, gives=Note, hints=ADDS)
def append_note(folder: Path, arguments: Written) -> Note:
    path = _existing(folder, arguments.name)
    if len(path.read_text(encoding="utf-8")) + len(arguments.text) > _MAX_CHARACTERS:
        raise Refused(f"a note holds at most {_MAX_CHARACTERS} characters")
    with path.open("a", encoding="utf-8") as file:
        file.write(arguments.text)
    return _note(path)


class Search(Arguments):
    query: str = Field(min_length=1, description="Text to look for; upper and lower case are the same")


class Match(BaseModel):
    name: str
    line: int
    text: str


class Matches(BaseModel):
    matches: list[Match]


@toolbox.tool("search_notes", "Find the lines of all notes that contain a text.", Search, gives=Matches)
def search_notes(folder: Path, arguments: Search) -> Matches:
    wanted = arguments.query.casefold()
    return Matches(
        matches=[
            Match(name=path.stem, line=number, text=line)
            for path in sorted(folder.glob("*.md"))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if wanted in line.casefold()
        ]
    )


@toolbox.tool(
    "delete_note", "Delete a note for good. There is no bin to get it back from.", Named, hints=DESTROYS
)
def delete_note(folder: Path, arguments: Named) -> str:
    _existing(folder, arguments.name).unlink()
    return f"deleted {arguments.name}"


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
