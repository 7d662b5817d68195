"""Demo backend `notes`: Markdown notes, each connection with its own, gone when it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.toolbox import ADDS, DESTROYS, SETS, Refused, Toolbox

_NAME = r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,63}$"

_MAX_NOTES = 1000
_MAX_CHARACTERS = 100_000

_FIRST_NOTES = {
    "welcome": "# Welcome\n\nThese notes are kept in memory. They vanish with the gateway.\n",
    "supplier contacts": "# Suppliers\n\n- Lamps: Northlight, lead time 12 days\n- Desks: Oak & Iron, lead time 21 days\n",
    "returns policy": "# Returns\n\nThirty days, unused, with the receipt. Refunds go out within 5 business days.\n",
}


@dataclass(slots=True)
class Written:
    """One note as it is kept."""

    text: str
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))


Book = dict[str, Written]
"""The notes of one connection by name."""


@asynccontextmanager
async def _book(_server: Server[Book]) -> AsyncIterator[Book]:
    yield {name: Written(text) for name, text in _FIRST_NOTES.items()}


toolbox: Toolbox[Book] = Toolbox("notes", "Short Markdown notes: write, append, read, search, delete.", _book)


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
def list_notes(book: Book) -> Notes:
    """List all notes with their size and the time of the last change."""
    return Notes(notes=[_note(book, name) for name in sorted(book)])


@toolbox.tool()
def read_note(book: Book, name: Name) -> NoteText:
    """Read the text of one note."""
    found = _existing(book, name)
    return NoteText(**_note(book, name).model_dump(), text=found.text)


@toolbox.tool(SETS)
def write_note(book: Book, name: Name, text: Markdown) -> Note:
    """Write a note; one of the same name is replaced."""
    if name not in book and len(book) >= _MAX_NOTES:
        raise Refused(f"there are {_MAX_NOTES} notes already; delete one first")
    book[name] = Written(text)
    return _note(book, name)


@toolbox.tool(ADDS)
def append_note(book: Book, name: Name, text: Markdown) -> Note:
    """Add text at the end of an existing note."""
    before = _existing(book, name).text
    if len(before) + len(text) > _MAX_CHARACTERS:
        raise Refused(f"a note holds at most {_MAX_CHARACTERS} characters")
    book[name] = Written(before + text)
    return _note(book, name)


class Match(BaseModel):
    name: str
    line: int
    text: str


class Matches(BaseModel):
    matches: list[Match]


@toolbox.tool()
def search_notes(
    book: Book,
    query: Annotated[
        str, Field(min_length=1, description="Text to look for; upper and lower case are the same")
    ],
) -> Matches:
    """Find the lines of all notes that contain a text."""
    wanted = query.casefold()
    return Matches(
        matches=[
            Match(name=name, line=number, text=line)
            for name in sorted(book)
            for number, line in enumerate(book[name].text.splitlines(), 1)
            if wanted in line.casefold()
        ]
    )


@toolbox.tool(DESTROYS)
def delete_note(book: Book, name: Name) -> str:
    """Delete a note for good. There is no bin to get it back from."""
    _existing(book, name)
    del book[name]
    return f"deleted {name}"


def _existing(book: Book, name: str) -> Written:
    if name not in book:
        names = ", ".join(sorted(book)[:10])
        raise Refused(f"there is no note {name!r}; notes: {names}")
    return book[name]


def _note(book: Book, name: str) -> Note:
    note = book[name]
    return Note(name=name, characters=len(note.text), changed=note.changed.isoformat(timespec="seconds"))


server = toolbox.server()
