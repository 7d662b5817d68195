"""Where the configuration is, and its bytes as text. Light, so that the command line can check a file first."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from gatemini.config.documents.jsonc import MAX_DEPTH, JsonSyntaxError, Parsed, parse_jsonc
from gatemini.errors import ConfigError
from gatemini.folders import config_folder, from_home

CONFIG_FILE = "config.yaml"
MAX_BYTES = 32 << 20
"""Some clients keep their whole history in the file that names their servers."""
MAX_CHECKED_BYTES = 1 << 20
"""Larger JSON is parsed once only, with the configuration."""
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def config_directory() -> Path:
    """`~/.config/gatemini`, or the platform's equivalent."""
    return config_folder()


def find_config(path: Path | None, environ: Mapping[str, str], directory: Path) -> Path | None:
    """The file to read: `-c`, else GATEMINI_CONFIG, else the default one if it is there."""
    if path is not None:
        return from_home(path)
    if environ.get("GATEMINI_CONFIG"):
        return from_home(environ["GATEMINI_CONFIG"])
    default = directory / CONFIG_FILE
    return default if default.exists() else None


def check_file(source: Path, *, absent: str = "") -> None:
    """Raise `ConfigError` for a file that cannot be read, or JSON that cannot be parsed."""
    text = read_text(source, absent=absent or when_absent(source))
    if len(text) <= MAX_CHECKED_BYTES and text.strip() and file_kind(source, text) == "json":
        read_json(source, text)


def when_absent(source: Path) -> str:
    """The hint for a named file that is not there: it was never written, or is another client's."""
    ours = source.suffix in (".yaml", ".yml")
    write = f"`gatemini init -c {shlex.quote(str(source))}` writes one to begin with"
    return (
        f"{write if ours else 'Check the path'}; without -c and GATEMINI_CONFIG the demo backends are served."
    )


def written_path(written: str, home: Path, base: Path) -> Path:
    """The file that a configuration means: below the home folder after `~/`, else relative to `base`."""
    return Path(home, written[2:]) if written.startswith("~/") else Path(base, written)


def read_text(path: Path, *, absent: str = "Check the path.") -> str:
    """The file's text; every way to be unreadable has its own sentence."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(
                f"{path}: is a directory, not a file",
                hint=f"Name a file in it, such as {path / 'config.yaml'}.",
            )
        if not (stat.S_ISREG(mode) or str(path).startswith(("/dev/fd/", "/proc/"))):
            raise ConfigError(f"{path}: is not a regular file", hint="Name a YAML or JSON file.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file", hint=absent) from None
    except PermissionError:
        raise ConfigError(f"{path}: permission to read it is missing", hint=f"chmod u+r {path}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {os.strerror(error.errno or 0)}") from error
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{path}: is larger than {MAX_BYTES >> 20} MiB", hint="This is no configuration file."
        )
    return _decoded(path, data)


def _decoded(path: Path, data: bytes) -> str:
    encoding = "utf-16" if data.startswith(_UTF_16) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}:{line}: is not text: byte 0x{data[error.start]:02x} is no UTF-8",
            hint="Save the file as UTF-8.",
        ) from None
    if "\x00" in text:
        raise ConfigError(f"{path}: is a binary file, not text", hint="Name a YAML or JSON file.")
    return text


def file_kind(path: Path, text: str) -> str:
    """yaml, json or toml, by the ending, else by the first character."""
    suffix = path.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return "yaml"
    if suffix == ".toml":
        return "toml"
    if suffix in (".json", ".jsonc", ".json5"):
        return "json"
    return "json" if text.lstrip()[:1] == "{" or text.lstrip()[:2] in ("//", "/*") else "yaml"


def read_json(path: Path, text: str) -> Parsed:
    """JSON with comments and trailing commas. Raises `ConfigError` with line and column."""
    try:
        return parse_jsonc(text, max_depth=MAX_DEPTH)
    except JsonSyntaxError as error:
        raise ConfigError(
            f"{path}:{error.line}: is not valid JSON (column {error.column}): {error.reason}",
            hint=error.remedy,
        ) from None
