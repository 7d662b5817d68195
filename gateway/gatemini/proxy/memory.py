"""What a proxy remembers of its client: open requests, the handshake, and answers that were saved by the last daemon."""

import os
import select

from gatemini import __version__
from gatemini.proxy.lines import Message, as_key, read, written
from gatemini.proxy.places import Place, values_digest

LOST = -32000
REPEATED = frozenset({"initialize", "server/discover", "subscriptions/listen"})
"""Requests that are sent again to the next daemon instead of being answered with an error."""
SAVED = frozenset({"initialize", "server/discover", "tools/list"})
MOST_SAVED_BYTES = 16 << 20
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
REVISION = "io.modelcontextprotocol/protocolVersion"
"""Members of `_meta`, as `mcp_types` names them."""


class Open:
    """One request of the client that has no answer yet. `end` counts the bytes of stdin up to its end."""

    __slots__ = ("chain", "end", "line", "method")

    def __init__(self, method: object, end: int, line: bytes) -> None:
        self.method, self.end, self.line = method, end, line
        self.chain: object = None


class Identity:
    """Revision and name of one client of the handshake era, whose later requests do not repeat them."""

    revision: object = None
    name: object = None

    def key(self, method: object, params: Message) -> str | None:
        """The key of the saved answer to a request, None where it is not saved."""
        if method not in SAVED or params.get("cursor") is not None:
            return None
        meta = _members(params.get("_meta"))
        info = _members(params.get("clientInfo") or meta.get(CLIENT_INFO))
        revision, name = params.get("protocolVersion") or meta.get(REVISION), info.get("name")
        if method == "initialize":
            self.revision, self.name = revision, name
        elif not revision:
            revision, name = self.revision, self.name
        return f"{method} {revision} {name}"


def _members(value: object) -> Message:
    return value if isinstance(value, dict) else {}


class ClientMemory:
    """One client: what it has open, what it has set, and the bytes that wait for it (`down`)."""

    def __init__(self, place: Place, environ: dict[str, str]) -> None:
        self.place, self.environ = place, environ
        self.token = os.urandom(16).hex()
        self.down = bytearray()
        self.open: dict[object, Open] = {}
        self.questions: dict[object, None] = {}
        """Requests of the daemon that the client has not answered."""
        self.handshake: Open | None = None
        self.initialized = b""
        self.settings: dict[object, Open] = {}
        """The log level and the subscriptions, by what they set."""
        self.swallowed: dict[object, int] = {}
        """Requests whose answer the client does not get, with the end of their line."""
        self.acknowledged: set[object] = set()
        """Streams that were acknowledged to the client by an earlier daemon."""
        self._saved: Message | None = None
        self.identity = Identity()
        self.repeats = 0

    def sent_down(self, message: Message) -> None:
        method, ident = message.get("method"), as_key(message.get("id"))
        if method is None:
            self.open.pop(ident, None)
        elif "id" in message:
            self.questions[ident] = None
        elif method == "notifications/cancelled":
            self.questions.pop(as_key(_members(message.get("params")).get("requestId")), None)

    def is_for_client(self, message: Message) -> bool:
        """Note a message of the daemon; False where it answers or acknowledges what was only repeated to it."""
        ident = as_key(message.get("id"))
        if "method" not in message and ident in self.swallowed:
            del self.swallowed[ident]
            return False
        if message.get("method") == "notifications/subscriptions/acknowledged":
            meta = _members(_members(message.get("params")).get("_meta"))
            for key, value in meta.items():
                if key.endswith("subscriptionId") and as_key(value) in self.acknowledged:
                    self.acknowledged.discard(value)
                    return False
        self.sent_down(message)
        return True

    def repeated(self, base: int) -> list[bytes]:
        """What the next daemon has to be sent again of the first `base` bytes of the client."""
        lines: list[bytes] = []
        first = self.handshake
        if first is not None and first.end <= base:
            unanswered = any(one is first for one in self.open.values())
            lines.append(first.line if unanswered else self.repeat(first.line))
            lines += [self.initialized] if self.initialized else []
        lines += [self.repeat(one.line) for one in self.settings.values() if one.end <= base]
        for ident, one in self.open.items():
            if one.end <= base and one.method in REPEATED and one is not first:
                lines.append(one.line)
                if one.method == "subscriptions/listen":
                    self.acknowledged.add(ident)
        return lines

    def repeat(self, line: bytes) -> bytes:
        """A request of the client under an id of our own, whose answer the client does not get."""
        message = read(line)
        self.repeats += 1
        ident = f"gatemini-{self.token[:8]}-{self.repeats}"
        self.swallowed[ident] = 0
        return written({**message, "id": ident}) if isinstance(message, dict) else b""

    def flush_down(self) -> None:
        """Write while that cannot block: the client's stdout stays a blocking one, since others may share it."""
        poll = select.poll()
        poll.register(1, select.POLLOUT)
        try:
            while self.down and poll.poll(0):
                del self.down[: os.write(1, self.down[: select.PIPE_BUF])]
        except OSError:
            os._exit(0)  # the client does not read any more

    def say(self, message: Message) -> None:
        self.down += written(message) + b"\n"
        self.flush_down()

    def lose(self, ident: object, *, sent: bool, why: str = "the gateway's daemon ended") -> None:
        """Answer a request that no daemon will answer."""
        ident = as_key(ident)
        request = self.open.pop(ident, None)
        if ident is None:
            return
        text = why + ("; the request may have been carried out" if sent else "; the request was not sent")
        data: Message = {"retryable": True, "sent": sent}
        if request is not None and request.chain:
            data["chain"] = request.chain
            text += f": find out with `// @resume {request.chain}` as the first line of the same code"
        error: Message = {"code": LOST, "message": text, "data": data}
        self.say({"jsonrpc": "2.0", "id": ident, "error": error})

    def last_saved(self) -> Message:
        """What the last daemon saved, read once."""
        if self._saved is None:
            self._saved = saved_answers(self.place.hello, self.environ)
        return self._saved

    def answer_saved(self, ident: object, params: Message) -> None:
        """Answer from the last daemon's answers where they still hold; the daemon's own answer is then swallowed."""
        request = self.open.get(ident)
        if request is None:
            return
        key = self.identity.key(request.method, params)
        if key is None:
            return
        answer = _members(self.last_saved().get("answers")).get(key)
        if isinstance(answer, str):
            self.swallowed[ident] = request.end
            del self.open[ident]
            self.down += b'{"jsonrpc":"2.0","id":' + written(ident) + b',"result":' + answer.encode() + b"}\n"
            self.flush_down()


def saved_answers(path: str, environ: dict[str, str]) -> Message:
    """What the last daemon answered, if it had this version and its configuration and cache are unchanged."""
    try:
        with open(path, "rb", 0) as file:
            saved = read(file.read(MOST_SAVED_BYTES))
        if not isinstance(saved, dict) or saved.get("version") != __version__:
            return {}
        for name, *stamp in saved["files"]:
            if stamp != stamp_of(name):
                return {}
        if saved.get("values") != values_digest(saved["names"], environ):
            return {}
    except (OSError, KeyError, TypeError, ValueError):
        return {}
    return saved


def stamp_of(path: str) -> list[int]:
    """What tells a file from its other versions; empty where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return []
    return [facts.st_mtime_ns, facts.st_size, facts.st_ino]
