"""`gatemini`: read the options before the command, then import only the module of that command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any

from gatemini import __version__
from gatemini.proxy.places import NO_WORKING_FOLDER

OK, FAILED, USAGE = 0, 1, 2
INTERRUPTED = 130

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "run a TypeScript chain from a file"),
    "call": ("run", "call one tool with JSON arguments"),
    "search": ("tools", "find tools by what they do"),
    "tools": ("tools", "list all tools, or those of one backend"),
    "info": ("tools", "show one tool: parameters, signature, how to call it"),
    "types": ("tools", "TypeScript declarations of one backend"),
    "stats": ("stats", "what each answer put into the context, and what the tools would cost there"),
    "recent": ("stats", "the last calls to backends: when, how long, how large"),
    "eval": ("eval", "does search find the right tools? recall, MRR and misses for your own queries"),
    "status": ("daemons", "the running daemon: its clients, backends, memory; --all for every one"),
    "approve": ("approve", "the calls that wait for your approval; approve or deny them, --watch for more"),
    "stop": ("daemons", "stop the daemon"),
    "restart": ("daemons", "stop the daemon and start a new one; clients stay connected"),
    "logs": ("daemons", "what the daemon has logged; -f follows"),
    "top": ("top", "the running daemon as a live view: clients, backends, calls, tokens saved"),
    "doctor": ("doctor", "check config, backends, keys, cache, sandbox and model, with what to do"),
    "demo": ("demo", "a session with the embedded demo backends"),
    "init": ("init", "write a commented configuration to begin with"),
    "config": ("config", "check, schema, show, path"),
    "install": ("install", "put this gateway into MCP clients; --take-over moves their servers behind it"),
    "uninstall": ("install", "take it out again; --restore gives them their servers back"),
    "audit": ("audit", "verify, show, export: the log of calls, decisions and changes"),
    "pin": ("pin", "diff, approve: what servers were when they were approved, in gatemini.lock.yaml"),
    "policy": ("policy", "test, explain, report: what the rules let happen"),
    "import": ("import_servers", "take over the servers that other clients have configured"),
    "secret": ("secrets", "set, list, remove stored values for ${input:NAME}"),
    "token": ("tokens", "create, list, revoke tokens of HTTP clients"),
    "login": ("login", "log in to a backend that wants it, or to --all; tokens are kept and renewed"),
    "logout": ("login", "forget the login to a backend"),
    "context": ("context", "trim, fold, filter, mark, meter, compact: steps on a request to a model"),
    "llm-proxy": ("llm_proxy", "a local proxy that makes requests to a model smaller"),
    "completion": ("completion", "completion of commands for bash, zsh or fish"),
    "sandbox": ("sandbox", "inspect what the sandbox can reach"),
}
"""Command → (module of this folder, one line of help)."""

_MODES = (
    "",
    "without a command: serve the MCP client on stdin and stdout, through the daemon of this configuration",
    "serve [-c CONFIG]: be that daemon (clients start it themselves)",
    "serve --http [HOST:PORT]: serve clients over HTTP",
)
_NEEDS_UNIX = """\
gatemini: the daemon that serves several clients needs Unix sockets, which this system has not.
Start a gateway of its own for each client instead:  gatemini --direct [-c CONFIG]
All commands:  gatemini --help"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0 done, 1 failed, 2 wrong usage."""
    _complete_streams()
    try:
        code = dispatch(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output (`| head`) has gone: no second error at shutdown.
        _drop_output()
        code = OK
    except OSError as error:  # a full disk, a closed stdout; errors of commands do not come this far
        sys.stderr.write(f"gatemini: {_reason(error)}\n")
        sys.stderr.flush()
        _drop_output()  # last: in a gateway that has claimed stdout, it is stderr
        code = FAILED
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _reason(error: OSError) -> str:
    """Why a command could not finish; nearly all of them need a working folder that exists."""
    try:
        os.getcwd()
    except OSError as missing:
        return f"{NO_WORKING_FOLDER}: {missing.strerror}"
    return f"could not finish: {error.strerror or error}"


def _complete_streams() -> None:
    """Open closed standard streams on the null device; write what stdout cannot encode as escapes."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # stdout is opened for reading only: a command then fails instead of losing its answer.
            null = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            os.dup2(null, number)  # the same number, unless something has taken it
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard what stdout has buffered, so that the interpreter does not write it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def dispatch(words: list[str]) -> int:
    """Read the options before the command, then hand over; returns the exit code."""
    direct = as_json = False
    while words and words[0].startswith("-"):
        option, _, attached = words.pop(0).partition("=")
        if option in ("-h", "--help"):
            return _help()
        if option == "--version":
            sys.stdout.write(f"gatemini {__version__}\n")
            return OK
        if option == "--direct":
            direct = True
        elif option == "--json":
            as_json = True
        elif option in ("-c", "--config"):
            if not attached and not words:
                return _usage(f"{option} needs the path of a configuration file")
            os.environ["GATEMINI_CONFIG"] = attached or words.pop(0)
        else:
            return _usage(f"there is no option {option}")
    if direct:
        return _usage(f"--direct takes no command, found {words[0]}") if words else _direct()
    if not words:
        sys.stderr.write(_NEEDS_UNIX + "\n")
        return USAGE
    if words[0] == "serve":  # the daemon listens before anything else is imported
        over_http = any(word == "--http" or word.startswith("--http=") for word in words)
        if over_http and sys.platform == "win32":
            return _usage("serve --http runs on Linux and macOS only")
        served_by = "gatemini.http.serve" if over_http else "gatemini.daemon.serve"
        return int(import_module(served_by).main(words[1:]))
    if words[0] == "help":
        return _help()
    if words[0] not in COMMANDS:
        near = import_module("difflib").get_close_matches(words[0], COMMANDS, n=1)
        return _usage(f"there is no command {words[0]}" + (f", did you mean {near[0]}?" if near else ""))
    module = import_module(f"gatemini.cli.{COMMANDS[words[0]][0]}")
    if as_json:
        words.append("--json")
    return int(import_module("gatemini.cli.shell").start(module.COMMANDS, words))


def _direct() -> int:
    """Serve one client on stdin and stdout; both are claimed first, so that no import can write to them."""
    wire = import_module("gatemini.protocol.stdio.descriptors").claim_stdio()
    # The sandbox process loads while this one imports, so that it is ready when the first chain comes.
    import_module("gatemini_sandbox.processes.spawn").start_early()
    code = int(import_module("gatemini.direct_mode").main(None, wire, _console))
    sys.stderr.flush()
    # Everything is closed; a worker thread that was given up (a model being loaded) must not delay the exit.
    os._exit(code)


async def _console(approvals: Any, redactor: Any) -> None:
    """Serve `gatemini approve` beside the client; imported only where something can ask."""
    await import_module("gatemini.daemon.console").serve_direct(approvals, redactor, None)


def _help() -> int:
    width = max(map(len, COMMANDS))
    lines = ["usage: gatemini [-c CONFIG] [--direct | COMMAND …]", *_MODES, "", "commands:"]
    lines += [f"  {name:<{width}}  {text}" for name, (_, text) in COMMANDS.items()]
    lines += [
        "",
        "options:",
        "  --direct          serve the client on stdin and stdout in this process, without the daemon",
        "  -c, --config PATH configuration file; else GATEMINI_CONFIG, else the default place",
        "  --json            machine-readable output of a command",
        "  --version, --help",
        "",
        "Every command takes --help and --json, before or behind it. Exit codes: 0 done, 1 failed, 2 wrong usage.",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return OK


def _usage(message: str) -> int:
    sys.stderr.write(f"gatemini: {message}\nAll commands:  gatemini --help\n")
    return USAGE
