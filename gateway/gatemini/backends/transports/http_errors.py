"""The error that an HTTP failure is for a call: its cause, whether the call may have run, the remedy.

Error texts never contain the query or the user-info of a URL, which may hold secrets.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx2
import orjson

from gatemini.backends.calls.failures import MAY_HAVE_RUN, NOT_RUN, SESSION_ENDED
from gatemini.backends.wire import Frame, decode
from gatemini.errors import BackendBusy, BackendCrashed, BackendError, BackendProtocol, BackendUnreachable
from gatemini.model import Json
from gatemini.text.shorten import shorten

SHOWN_BODY_CHARS = 300
DEFAULT_RETRY_AFTER = 1.0
"""Seconds, for a 429 without a Retry-After header."""

MAX_RETRY_AFTER = 3600.0

SESSION_CODES = (-32000, -32001, -32600)
"""JSON-RPC error codes with which servers report that a session is missing or unknown."""


_LOST = re.compile(
    r"(?:no valid|invalid or missing|missing or invalid|invalid|unknown|expired) (?:mcp[- ])?session(?:[- ]id)?(?: header)?(?: provided)?"
    r"|(?:mcp[- ])?session(?:[- ]id)? (?:is |was |has )?(?:not found|unknown|invalid|expired|terminated)(?: or (?:has )?expired)?",
    re.IGNORECASE,
)
"""What servers say of a session that they have forgotten."""
_WHOLLY_LOST = re.compile(
    rf"(?:bad request|not found|conflict|error): (?:{_LOST.pattern})\W?|(?:{_LOST.pattern})\W?", re.IGNORECASE
)
_CERTAIN_BYTES = 500
"""A longer body says more than that the session is lost."""


def shown_url(url: httpx2.URL | str) -> str:
    """The URL without the parts that may be secret."""
    return str(httpx2.URL(url).copy_with(userinfo=b"", query=None, fragment=None))


def transport_error(name: str, url: str, error: Exception, *, quote: bool) -> BackendError:
    """For a request without a response, or with one that broke off; `quote` shows what the server sent."""
    where = shown_url(url)
    if isinstance(
        error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError
    ):
        if _is_tls(error):
            return BackendUnreachable(
                f"{name}: no secure connection to {where}: {_reason(error)}",
                hint="check the certificate; SSL_CERT_FILE names a CA of your own",
            )
        return BackendUnreachable(
            f"{name} cannot be reached at {where}: {_reason(error)}",
            hint="check that the server runs and that `url` is right",
        )
    if isinstance(error, httpx2.TooManyRedirects):
        return BackendProtocol(
            f"{name}: {where} redirects in a circle: {_reason(error)}",
            hint="use the address it should lead to as `url`",
            sent=True,
        )
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL | httpx2.LocalProtocolError):
        return BackendUnreachable(
            f"{name}: the request could not be made: {_reason(error)}", hint="correct `url` or `headers`"
        )
    return BackendCrashed(
        f"{name}: the connection to {where} broke before the answer: {_reason(error) if quote else type(error).__name__}",
        sent=True,
        hint=MAY_HAVE_RUN,
    )


def status_error(
    name: str, response: httpx2.Response, body: bytes, *, quote: bool, logs_in: bool
) -> BackendError:
    """For a status other than 2xx whose body is no JSON-RPC error; `logs_in` if the request had the token of a login."""
    status = response.status_code
    where = shown_url(response.request.url)
    text = f"{name}: HTTP {status} {_phrase(status)} from {where}{said(response, body, quote)}"
    details = {"http_status": status}
    if status == 429 or (status == 503 and "retry-after" in response.headers):
        wait = retry_after(response.headers.get("retry-after"))
        return BackendBusy(
            text,
            hint=f"it takes calls again in {wait:g} s",
            sent=status != 429,  # only 429 means that the request was not processed
            details={**details, "retry_after": wait, "remote": True},
        )
    kind: type[BackendError] = BackendUnreachable if status in (502, 503, 504) else BackendProtocol
    if status in (401, 403) and logs_in:
        hint = f"the server refuses this login; `gatemini login {name}` makes another one, of somebody who may do this"
    elif status in (401, 403):
        hint = f"set or correct headers.Authorization of backend {name}, or let it log in: oauth: {{}} and `gatemini login {name}`"
    elif status in (404, 405, 406, 410):
        hint = "check the path in `url`; an old HTTP+SSE server needs `transport: sse`"
    elif 300 <= status < 400:
        target = response.headers.get("location", "") if quote else ""
        shown = shown_url(response.request.url.join(target)) if target else "another address"
        text += f": redirected to {shown}, which was not followed"
        hint = "if that is the right server, use it as `url`"
    elif kind is BackendUnreachable:
        hint = "the server behind it is down or slow"
    elif status >= 500:
        hint = "the server itself failed: its log says why"
    else:
        hint = "the server refuses this request"
    return kind(text, hint=hint, details=details, sent=True)


def session_ended(
    name: str,
    response: httpx2.Response,
    body: bytes,
    *,
    stateless: bool = False,
    says_so: bool = False,
    quote: bool,
) -> BackendCrashed | None:
    """Return the error if the server wants a session that it knows; else None. `says_so`: its text says only that.

    A `stateless` server that now wants one was replaced by another, which may have run the call.
    """
    # 404 is what the protocol requires; some servers send 400 (the TypeScript SDK: "Server not initialized") or 401
    # (rmcp), which may mean anything else too; 200, 409, 500 and 503 only where they say nothing but that.
    status, text = response.status_code, body.lower()
    speaks_of_it = status in (400, 404) or (status == 401 and "www-authenticate" not in response.headers)
    speaks_of_it = speaks_of_it and (b"session" in text or b"not initialized" in text)
    speaks_of_it = speaks_of_it or (not stateless and says_so)
    if not speaks_of_it and (stateless or status not in (404, 410)):
        return None
    return BackendCrashed(
        f"{name} has ended our session (HTTP {response.status_code}){said(response, body, quote)}",
        sent=stateless,
        hint="the next call starts a new session; look first whether this one took effect"
        if stateless
        else f"{NOT_RUN}, which starts a new session",
        details={SESSION_ENDED: True},
    )


def says_session_lost(body: bytes) -> bool:
    """Whether a body or event says that the session is not known, and nothing else: then the call did not run.

    A message with an id may be about the call, and about sessions of the tool's own.
    """
    if len(body) > _CERTAIN_BYTES or b"ession" not in body:
        return False
    if any(isinstance(piece, Frame) and piece.message.get("id") not in (None, "") for piece in decode(body)):
        return False
    text = body.decode("utf-8", "replace").strip()
    try:
        value = orjson.loads(text)
    except ValueError:
        value = text
    for _ in range(2):  # {"error": {"message": …}}
        if isinstance(value, dict):
            value = value.get("error") or value.get("message") or value.get("detail")
    return isinstance(value, str) and _WHOLLY_LOST.fullmatch(value.strip()) is not None


def refuses_call(message: Json) -> bool:
    """Whether a JSON-RPC error has a code that no server uses to ask for a session."""
    error = message.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return isinstance(code, int) and code not in SESSION_CODES


def content_error(
    name: str, response: httpx2.Response, body: bytes, *, ran: bool, quote: bool
) -> BackendProtocol:
    """For a success whose body is no JSON-RPC; `ran` if the request was a call, which may have taken effect."""
    kind = response.headers.get("content-type", "no content type").split(";")[0]
    where = shown_url(response.request.url)
    page = body.lstrip().startswith(b"<")
    return BackendProtocol(
        f"{name}: {where} answered with {kind} instead of JSON-RPC{said(response, body, quote)}"
        if body.strip()
        else f"{name}: {where} answered with HTTP {response.status_code} and nothing in it",
        hint=MAY_HAVE_RUN
        if ran and not page
        else "check `url`: this looks like a web page or another service",
        details={"http_status": response.status_code},
        sent=True,
    )


def retry_after(value: str | None) -> float:
    """Seconds of a Retry-After header: a number or an HTTP date."""
    if value is None:
        return DEFAULT_RETRY_AFTER
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            seconds = DEFAULT_RETRY_AFTER
    return min(max(seconds, 0.0), MAX_RETRY_AFTER) if seconds == seconds else DEFAULT_RETRY_AFTER


def said(response: httpx2.Response, body: bytes, quote: bool) -> str:
    """The reason that the server gave, as the end of a sentence; empty without one, or without `quote`.

    Errors of registered backends quote nothing: an agent could read any service that the gateway reaches.
    """
    if not quote:
        return ""
    challenge = response.headers.get("www-authenticate")
    text = shorten(" ".join(body.decode("utf-8", "replace").split()), SHOWN_BODY_CHARS)
    if text.startswith("<"):
        text = ""  # the start of a web page explains nothing
    parts = [p for p in (f"WWW-Authenticate: {challenge}" if challenge else "", text) if p]
    return ": " + "; ".join(parts) if parts else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _is_tls(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
