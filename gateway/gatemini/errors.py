"""The error classes of the gateway.

Every error has a stable `code` (listed in docs/troubleshooting.md), a message for the agent or person who reads it, and
an optional `hint` on what to do. Code decides by class or `code`, never by text. `protocol/tools.py` and `cli/` turn errors
into answers.
"""

from __future__ import annotations

from typing import Any, ClassVar


class GateminiError(Exception):
    """Base of all errors; `code` is stable, `message` is for the reader, `hint` says what to do."""

    code: ClassVar[str] = "internal"

    def __init__(
        self, message: str, *, hint: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}

    @property
    def kind(self) -> str:
        """The word in front of the message: the class name."""
        return type(self).__name__

    def text(self) -> str:
        """`Kind: message`, and the hint on a line of its own."""
        first = f"{self.kind}: {self.message}"
        return f"{first}\nHINT: {self.hint}" if self.hint else first


class InternalError(GateminiError):
    """A fault of the gateway itself; nothing the reader did is wrong."""


class ConfigError(GateminiError):
    """The configuration cannot be used; the message names file, key, what was found and the remedy."""

    code = "config.invalid"


def config_reason(error: BaseException) -> str | None:
    """Why a configuration cannot be used, where that alone ended a gateway; None where anything else did.

    A task group wraps what is raised inside of it.
    """
    if isinstance(error, ConfigError):
        return error.text()
    reasons = (
        [config_reason(each) for each in error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    )
    found = [reason for reason in reasons if reason is not None]
    return "\n".join(found) if found and len(found) == len(reasons) else None


class InvalidRequest(GateminiError):
    """A meta-tool was called with arguments that it does not accept."""

    code = "request.invalid"


class CodeError(GateminiError):
    """The code of a chain cannot be run as it was sent (empty, binary, two fenced blocks …)."""

    code = "chain.code"


class CodeTooLarge(CodeError):
    """The code has more bytes than a chain may have."""

    code = "limit.code"


class BackendNotFound(GateminiError):
    code = "backend.not_found"


class ToolNotFound(GateminiError):
    code = "tool.not_found"


class CompositeFaulty(ToolNotFound):
    """A composite tool whose code cannot run, so that there is no such tool."""

    code = "tool.faulty"


class AmbiguousTool(GateminiError):
    code = "tool.ambiguous"


class ArgumentsInvalid(GateminiError):
    """Arguments do not fit the tool's input schema; nothing was sent."""

    code = "tool.arguments"


class ResourceNotFound(GateminiError, LookupError):
    """A `gatemini://` address or prompt that does not exist; the message says what does."""

    code = "resource.not_found"


class RegistrationRefused(GateminiError):
    code = "registration.refused"


class PolicyError(GateminiError):
    """The policy keeps a call from its backend; nothing was sent."""


class PolicyDenied(PolicyError):
    """A rule, a budget, a grant, a pin or the flow of data forbids the call; `details` has `rule` and `reason`."""

    code = "policy.denied"

    @classmethod
    def by(cls, tool: str, rule: str, reason: str, *, hint: str | None = None) -> PolicyDenied:
        """The error of a call that `rule` denies."""
        return cls(
            f"{tool} is denied by {rule}{f': {reason}' if reason else ''}",
            hint=hint
            or "do not try other spellings: use another tool, or report that the policy forbids this",
            details={"rule": rule, "reason": reason},
        )


class ApprovalDenied(PolicyError):
    """A person, or a rule that nothing can ask about, refused the approval of a call."""

    code = "approval.denied"


class ApprovalPending(PolicyError):
    """The approval of a call is still open; the chain can be resumed once it is granted."""

    code = "approval.pending"


class AuditFailed(PolicyError):
    """The record of a call cannot be written, without which nothing is sent (`audit.on_failure: block`)."""

    code = "audit.failed"


class BackendError(GateminiError):
    """A backend could not answer. `sent` says whether the request may have reached it."""

    code = "backend.error"

    def __init__(self, message: str, *, sent: bool = False, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.sent = sent


class BackendStarting(BackendError):
    """It was still starting when the caller's time was over."""

    code = "backend.starting"


class BackendStopped(BackendError):
    """It does not run: it failed to start, exited, or was stopped."""

    code = "backend.stopped"


class BackendCrashed(BackendError):
    """The process or connection ended while the call was open."""

    code = "backend.crashed"


class BackendTimeout(BackendError):
    """No answer within the call's timeout; the call was cancelled at the backend."""

    code = "backend.timeout"


class BackendUnreachable(BackendError):
    """No connection to the endpoint, or it refused before the call could have run."""

    code = "backend.unreachable"


class LoginRequired(BackendError):
    """It wants a login that only a person can make; nothing was run."""

    code = "backend.login_required"


class BackendUnhealthy(BackendError):
    """It stopped answering health probes; calls are refused until a probe succeeds."""

    code = "backend.unhealthy"


class BackendBusy(BackendError):
    """A limit of concurrent calls or of rate was not met in time; nothing was sent."""

    code = "backend.busy"


class BackendProtocol(BackendError):
    """The backend answered with a JSON-RPC error or with something that is no answer."""

    code = "backend.protocol"

    def __init__(
        self, message: str, *, rpc_code: int | str | None = None, rpc_data: object = None, **rest: Any
    ) -> None:
        super().__init__(message, **rest)
        self.rpc_code = rpc_code
        self.rpc_data = rpc_data


class ResultTooLarge(BackendError):
    code = "backend.too_large"


class DaemonRefused(GateminiError):
    """No daemon can be reached, or it does not answer."""

    code = "daemon.unreachable"


class StateUnavailable(GateminiError):
    """The store that replicas share cannot be reached, or did not answer in time."""

    code = "state.unavailable"


class CallUnchecked(StateUnavailable, PolicyError):
    """A call that needs a limit, an approval or a record which replicas share, while their store cannot be reached.

    Agents read it as a StateUnavailable.
    """

    @property
    def kind(self) -> str:
        return StateUnavailable.__name__


class ResultGone(GateminiError):
    """A result handle does not exist in this session."""

    code = "result.gone"


class ResultNotKept(GateminiError):
    """A result fits neither the memory nor the disk a session may use, or the session has ended."""

    code = "result.not_kept"


class ChainError(GateminiError):
    """A chain ended with an error; subclasses name which limit or fault."""

    code = "chain.error"


class ChainTimeout(ChainError):
    """The chain did not end within its time, waiting included."""

    code = "limit.time"

    @classmethod
    def after(cls, seconds: float, queued: float = 0.0) -> ChainTimeout:
        """The error of a timeout; `queued` are the seconds that the chain waited for other chains."""
        text = f"the chain did not end within its timeout of {seconds * 1000:,.0f} ms"
        if queued * 2 < seconds:
            return cls(
                f"{text} ({cls.code})", hint="raise `timeout` (ms, at most 600000), or do less in one chain"
            )
        return ChainQueued(
            f"{text}, of which it waited {queued * 1000:,.0f} ms for other chains to make room "
            f"({ChainQueued.code}: sandbox.max_concurrent_sandboxes)",
            hint="send it again when fewer chains run, or raise `timeout` (ms, at most 600000)",
        )


class ChainQueued(ChainTimeout):
    """The chain spent its time waiting for a place among the running guests; agents read it as a ChainTimeout."""

    code = "limit.guests"

    @property
    def kind(self) -> str:
        return ChainTimeout.__name__


OUT_OF_TIME = frozenset({ChainTimeout.code, ChainQueued.code})
"""Codes of chains whose time was over."""


class LimitError(ChainError):
    """A chain has made all the calls it may make; the guest's own limits carry the same name."""

    code = "limit.calls"


class CompositeCycle(ChainError):
    """Composite tools that call each other in a circle, or nest too deeply."""

    code = "chain.composite"


class ResumeRefused(ChainError):
    """`// @resume` cannot go on with that chain; the message says why. Nothing was sent."""

    code = "chain.resume"


class SandboxFault(ChainError):
    """The sandbox itself failed: its module, a process, or a message that is none."""

    code = "sandbox.fault"
