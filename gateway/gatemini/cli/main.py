"""`gatemini`: the dispatch table. Imports nothing heavy until it is known which command is meant.

Bare `gatemini`, `--help`, `--version` and a misspelt command cost no imports at all; `--direct` claims stdout
for the protocol before anything that could write to it is loaded. Above: the console script. Below: the
module that the table names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("chains", "run a TypeScript chain from a file"),
    "call": ("chains", "call one tool with JSON arguments"),
    "search": ("catalog", "find tools by what they do"),
    "tools": ("catalog", "list all tools, or those of one backend"),
    "info": ("catalog", "show one tool: parameters, signature, how to call it"),
    "types": ("catalog", "TypeScript declarations of one backend"),
    "stats": ("accounting", "what each answer put into the context, and what the tools would cost there"),
    "recent": ("accounting", "the last calls to backends: when, how long, how large"),
    "eval": ("evaluation", "does search find the right tools? recall, MRR and misses for your own queries"),
    "doctor": ("doctor", "check config, backends, keys, cache, sandbox and model; say how to mend each"),
    "demo": ("demonstration", "a session with the embedded demo backends"),
    "init": ("starter", "write a commented configuration to begin with"),
    "config": ("configuration", "check, schema, show"),
    "import": ("imports", "take over what other clients have configured"),
    "secret": ("secrets", "set, list, remove stored values for ${input:NAME}"),
    "sandbox": ("engine", "inspect what the sandbox can reach"),
}
"""Command → (module of this folder, one line of help). The one place that names them."""

_DAEMON_LATER = """\
gatemini: the shared daemon that the plain command connects to is not built yet.
Start a gateway of its own for one client instead:  gatemini --direct [-c CONFIG]
All commands:  gatemini --help"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 wrong usage."""
    _complete_streams()
    try:
        code = dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output (`| head`) has gone; leave without a second error at shutdown.
        _drop_output()
        code = OK
    except (
        OSError
    ) as error:  # a full disk, a closed stdout: what commands themselves meet never comes this far
        _drop_output()
        sys.stderr.write(f"gatemini: could not finish: {error.strerror or error}\n")
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _complete_streams() -> None:
    """Whoever started us may have closed a standard stream, or say that they take only some characters."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # Never opened for writing as stdout: a command then fails for its answer instead of losing it.
            null = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """What stdout still holds is not written, now or when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def dispatch(words: list[str]) -> int:
    """Read the options before the command, then hand over; returns the exit code."""
    direct = False
    while words and words[0].startswith("-"):
        option, _, attached = words.pop(0).partition("=")
        if option in ("-h", "--help"):
            return _help()
        if option == "--version":
            sys.stdout.write(f"gatemini {version('gatemini')}\n")
            return OK
        if option == "--direct":
            direct = True
        elif option in ("-c", "--config"):
            if not attached and not words:
                return _usage(f"{option} needs the path of a configuration file")
            os.environ["GATEMINI_CONFIG"] = attached or words.pop(0)
        else:
            return _usage(f"there is no option {option}")
    if direct:
        return _usage(f"--direct takes no command, found {words[0]}") if words else _direct()
    if not words:
        sys.stderr.write(_DAEMON_LATER + "\n")
        return USAGE
    if words[0] == "help":
        return _help()
    if words[0] not in COMMANDS:
        near = get_close_matches(words[0], COMMANDS, n=1)
        return _usage(f"there is no command {words[0]}" + (f", did you mean {near[0]}?" if near else ""))
    module = import_module(f"gatemini.cli.{COMMANDS[words[0]][0]}")
    return int(module.start(words))


def _direct() -> int:
    """One gateway on stdin and stdout; both are claimed first, so that no import can write to them.

    Ends the process itself: everything is closed by then, and worker threads that were given up (a model being
    loaded, a large answer nobody waits for any more) must not hold the exit for seconds.
    """
    wire = import_module("gatemini.server.descriptors").claim_stdio()
    import_module("gatemini_sandbox.spawn").start_early()
    code = int(import_module("gatemini.server.direct").main(None, wire))
    sys.stderr.flush()
    os._exit(code)


def _help() -> int:
    width = max(map(len, COMMANDS))
    lines = ["usage: gatemini [-c CONFIG] --direct | COMMAND …", "", "commands:"]
    lines += [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    lines += [
        "",
        "options:",
        "  --direct          serve one MCP client on stdin and stdout",
        "  -c, --config PATH configuration file; else GATEMINI_CONFIG, else the default place",
        "  --version, --help",
        "",
        "Every command takes --json, -c and --help. Exit codes: 0 done, 1 failed, 2 wrong usage.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK


def _usage(message: str) -> int:
    sys.stderr.write(f"gatemini: {message}\nAll commands:  gatemini --help\n")
    return USAGE
