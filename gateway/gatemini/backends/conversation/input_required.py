"""Answer what an `input_required` result (2026-07-28) asks of the client before the call is repeated."""

from __future__ import annotations

from typing import Any

import anyio

from gatemini.backends.calls.callers import AskFn, RpcError
from gatemini.backends.conversation.backend_requests import ASK_SECONDS, MOST_QUESTIONS
from gatemini.backends.conversation.handshake import as_object
from gatemini.errors import BackendError, BackendProtocol, BackendStopped
from gatemini.model import Json

STATE_ONLY_SECONDS = 0.1
"""Pause before a call is repeated whose result asks nothing."""


def asks_for_input(result: Any) -> bool:
    return isinstance(result, dict) and result.get("resultType") == "input_required"


async def answers_to(name: str, result: Json, ask: AskFn | None, stopped: anyio.Event) -> Json:
    """Put all questions of the result to the client at the same time; the answers by key.

    Raises `BackendProtocol` if one is refused or not answered, `BackendStopped` once the backend was stopped.
    """
    requests = as_object(result.get("inputRequests"))
    if not requests:
        await anyio.sleep(STATE_ONLY_SECONDS)
        return {}
    if ask is None:
        raise BackendProtocol(
            f"{name} asks for input before it goes on, which cannot be given here",
            rpc_data=requests,
            sent=True,
        )
    if len(requests) > MOST_QUESTIONS:
        raise BackendProtocol(
            f"{name} asks {len(requests)} questions at once, more than {MOST_QUESTIONS}", sent=True
        )
    answers: Json = {}
    failed: list[BackendError] = []
    async with anyio.create_task_group() as tasks:

        def give_up(error: BackendError) -> None:
            failed.append(error)
            tasks.cancel_scope.cancel()

        async def put(key: str, question: Json) -> None:
            method = str(question.get("method"))
            try:
                with anyio.fail_after(ASK_SECONDS):
                    answers[key] = await ask(method, as_object(question.get("params")))
            except (RpcError, TimeoutError) as refused:
                text = refused.message if isinstance(refused, RpcError) else "nobody answered in time"
                give_up(BackendProtocol(f"{name} asked for input ({method}) and got none: {text}", sent=True))
            if len(answers) == len(requests):
                tasks.cancel_scope.cancel()

        for key, question in requests.items():
            tasks.start_soon(put, key, as_object(question))
        await stopped.wait()
        give_up(BackendStopped(f"{name} was stopped while it waited for an answer", sent=True))
    if failed:
        raise failed[0]
    return answers
