"""The cli-adapter transport: tools that are command lines, behind the same link as an MCP server.

The link answers the requests itself; `tools/call` starts a process and turns its output into a result.
"""

from __future__ import annotations

import errno
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from gatemini.backends.transports.interface import Link, Receiver
from gatemini.backends.wire import Frame
from gatemini.config.model.command_template import (
    TemplateError,
    command_line,
    stdin_text,
    words_of,
)
from gatemini.config.model.schema import BackendConfig, CliTool
from gatemini.errors import BackendError, BackendStopped, BackendTimeout, BackendUnreachable, ResultTooLarge
from gatemini.model import Json
from gatemini.processes.child_environment import child_environment, find_program, working_directory
from gatemini.processes.children import Children
from gatemini.processes.command import Finished, OutputTooLarge, describe_exit, run_to_end
from gatemini.processes.workers.compute_process import LARGE_BYTES

SHOWN_STDERR = 20
"""Lines of stderr in the answer to a command that failed."""


class CliLink(Link):
    """Answers for the command lines of one backend; while it is open, calls may start processes."""

    def __init__(
        self, config: BackendConfig, receiver: Receiver, children: Children, tasks: anyio.abc.TaskGroup
    ) -> None:
        super().__init__(config.name, receiver)
        self._config = config
        self._children = children
        self._tasks = tasks
        self._running: dict[int, anyio.CancelScope] = {}
        self._stderr: list[str] = []

    def stderr_tail(self) -> list[str]:
        """Lines of the last health check; a call's stderr is part of its own result."""
        return self._stderr

    def abandon(self, ident: int) -> bool:
        """Cancel the command of a call."""
        scope = self._running.pop(ident, None)
        if scope is not None:
            scope.cancel()
        return True

    async def send(self, message: Json, *, ident: int | None = None) -> None:
        """Answer a request, at once or in a task of its own."""
        if ident is None:
            return
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            self._reply(
                ident,
                {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": self._config.name, "version": "cli"},
                },
            )
        elif method == "tools/list":
            self._reply(ident, {"tools": [_listed(n, t) for n, t in self._config.cli_tools.items()]})
        elif method == "ping" and not self._config.health_check:
            self._reply(ident, {})
        elif method in ("ping", "tools/call"):
            scope = self._running[ident] = anyio.CancelScope()
            self._tasks.start_soon(self._work, ident, method, params, scope)
        else:
            error = {"code": -32601, "message": f"a CLI adapter does not know {method}"}
            self._receiver.receive(Frame({"jsonrpc": "2.0", "id": ident, "error": error}))

    def _reply(self, ident: int, result: Json, size: int = 0) -> None:
        self._receiver.receive(Frame({"jsonrpc": "2.0", "id": ident, "result": result}, (), size))

    async def _work(self, ident: int, method: str, params: Json, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                if method == "ping":
                    await self._check_health()
                    self._reply(ident, {})
                else:
                    result, size = await self._call(params)
                    self._reply(ident, result, size)
            except BackendError as error:
                self._receiver.fail_one(ident, error)
        self._running.pop(ident, None)

    async def _call(self, params: Json) -> tuple[Json, int]:
        name = str(params.get("name"))
        tool = self._config.cli_tools.get(name)
        if tool is None:
            return _failed(f"there is no tool {name!r}"), 0
        arguments = params.get("arguments")
        try:
            line = command_line(tool, arguments if isinstance(arguments, dict) else {})
            text = stdin_text(tool, arguments if isinstance(arguments, dict) else {})
        except TemplateError as error:
            return _failed(str(error)), 0
        finished = await self._run(name, line, text, cwd=tool.cwd, timeout=tool.timeout)
        if len(finished.stdout) <= LARGE_BYTES:
            return _result(tool, finished), len(finished.stdout)
        return await anyio.to_thread.run_sync(_result, tool, finished), len(finished.stdout)

    async def _run(
        self, what: str, line: list[str], text: bytes | None, *, cwd: str | None, timeout: float | None
    ) -> Finished:
        environment = child_environment(self._config.env, inherit=self._config.inherit_env)
        directory = working_directory(cwd or self._config.cwd)
        program = find_program(line[0], environment, directory)
        with anyio.move_on_after(timeout) as limit:
            try:
                finished = await run_to_end(
                    f"{self._config.name}.{what}",
                    [program, *line[1:]],
                    environment=environment,
                    cwd=directory,
                    stdin=text,
                    max_bytes=self._config.max_message_mb << 20,
                    children=self._children,
                    grace=self._config.shutdown_grace_period,
                )
            except OutputTooLarge as error:
                raise ResultTooLarge(
                    f"{what} printed more than {self._config.max_message_mb} MB (max_message_mb) and was ended",
                    sent=True,
                ) from error
            except OSError as error:
                if error.errno != errno.E2BIG:
                    raise BackendStopped(f"{what} could not be started: {error}") from error
                raise ResultTooLarge(
                    f"{what}: the arguments are longer than a command line may be",
                    hint="large values go through `stdin` in the tool's configuration, or a file",
                ) from error
            except ValueError as error:
                raise BackendStopped(f"{what} could not be started: {error}") from error
        if limit.cancelled_caught:
            raise BackendTimeout(f"{what} was ended after {timeout:g} s (its timeout)", sent=True)
        return finished

    async def _check_health(self) -> None:
        check = self._config.health_check or ()
        line = shlex.split(check) if isinstance(check, str) else list(check)
        finished = await self._run("health_check", line, None, cwd=None, timeout=None)
        self._stderr = finished.stderr_lines if finished.code != 0 else []
        if finished.code != 0:
            raise BackendUnreachable(
                f"{self._config.name}: health_check {describe_exit(finished.code)}",
                hint="run its health_check by hand to see what is missing",
            )


@asynccontextmanager
async def open_cli(config: BackendConfig, receiver: Receiver, children: Children) -> AsyncIterator[Link]:
    """Serve the command lines of a backend for the length of the context."""
    _check_programs(config)
    async with anyio.create_task_group() as tasks:
        yield CliLink(config, receiver, children, tasks)
        tasks.cancel_scope.cancel()


def _check_programs(config: BackendConfig) -> None:
    """Raise `BackendStopped` if none of the programs exists; loading the configuration has checked the templates."""
    environment = child_environment(config.env, inherit=config.inherit_env)
    missing: list[BackendStopped] = []
    for tool in config.cli_tools.values():
        try:
            find_program(words_of(tool)[0], environment, tool.cwd or config.cwd)
        except BackendStopped as error:
            missing.append(error)
    if missing and len(missing) == len(config.cli_tools):
        raise missing[0]


def _listed(name: str, tool: CliTool) -> Json:
    return {
        "name": name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
    }


def _result(tool: CliTool, finished: Finished) -> Json:
    """Output as `output` says; a non-zero exit is an error with code, stderr and stdout."""
    text = finished.stdout.decode("utf-8", "replace").removesuffix("\n")
    if finished.code != 0:
        parts = [f"the command {describe_exit(finished.code)}"]
        if finished.stderr_lines:
            parts.append("stderr:\n" + "\n".join(finished.stderr_lines[-SHOWN_STDERR:]))
        if text:
            parts.append("stdout:\n" + text)
        return _failed("\n".join(parts), {"exit_code": finished.code, "stdout": text})
    result: Json = {"content": [{"type": "text", "text": text}]}
    if tool.output == "lines":
        lines = [line.removesuffix("\r") for line in text.split("\n")] if text else []
        result = {"content": [], "structuredContent": lines}
    elif tool.output == "json":
        try:
            value: Any = json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as fault:
            error = "it nests too deeply" if isinstance(fault, RecursionError) else fault
            return _failed(f"the command's output is not JSON: {error}\nstdout:\n{text}", {"stdout": text})
        if value is None or value == {}:  # else the text would be taken for the value
            result["content"] = []
        if value is not None:
            result["structuredContent"] = value
    return result


def _failed(text: str, structured: Json | None = None) -> Json:
    result: Json = {"content": [{"type": "text", "text": text}], "isError": True}
    if structured is not None:
        result["structuredContent"] = structured
    return result
