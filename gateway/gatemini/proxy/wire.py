"""Carry bytes between the client and the daemon: forwarded first, looked at later.

What the connection's end means for them is in `stdio.py`.
"""

import _socket
import time

from gatemini import __version__
from gatemini.proxy.lines import LineEnds, Message, as_key, look, read
from gatemini.proxy.memory import REPEATED, SAVED, ClientMemory, Open
from gatemini.proxy.places import Place

CHUNK = 256 * 1024
HELD_BYTES = 1 << 19
"""A side is read only while the other one holds less than this; a shorter line of the daemon is held until it is whole."""
WAITING_BYTES = 16 << 20
WAITING_REQUESTS = 256
"""What may wait for a daemon that starts or restarts."""
START_SECONDS = 20.0
FIRST_PAUSE = 0.05
GREETING_SECONDS = 0.03
"""A daemon that has not greeted us by then is still starting: saved answers are used."""

NEEDED = frozenset({"sessions", "drain"})
"""Features without which a daemon of another version cannot serve this proxy."""

PRIVATE = b'{"gatemini":'
"""Beginning of the lines between proxy and daemon that no client sees."""


class Wire(ClientMemory):
    """The bytes of one client in both directions, and the connection they are for (`sock`), if there is one."""

    def __init__(self, place: Place, environ: dict[str, str]) -> None:
        super().__init__(place, environ)
        self.sock: _socket.socket | None = None
        self.greeted = self.known = False  # by this daemon, by any
        self.holding = self.held = False  # the daemon drains; it knows that nothing more will come
        # towards the daemon
        self.first = bytearray()  # greeting and repeated handshake, before `up`
        self.up = bytearray()  # from the beginning of the first line that was not sent to its end
        self.sent = 0  # bytes of `up` that were sent
        self.total = 0  # bytes of stdin that ever came to `up`
        self.torn = False  # the beginning of a long line is sent and dropped
        self.dropping = False  # the rest of a torn line is still to come
        self.client_line = LineEnds()
        # towards the client
        self.arriving = bytearray()
        self.streaming = False  # inside of a line that is too long to be held until it is whole
        self.daemon_line = LineEnds()
        # requests that saved answers may answer, while a daemon that took the connection has not greeted us
        self.early: list[tuple[object, Message]] = []
        self.early_at = 0.0
        # connecting
        self.wanted, self.spawned, self.ungreeted = True, False, 0
        self.next_try, self.pause, self.give_up = 0.0, FIRST_PAUSE, time.monotonic() + START_SECONDS
        self.start_seconds, self.start_seconds_known = START_SECONDS, False

    def lost(self) -> None:
        """The connection has ended."""
        raise NotImplementedError

    def failed(self, reason: str) -> None:
        """No daemon can be had."""
        raise NotImplementedError

    @property
    def base(self) -> int:
        """Bytes of stdin before those in `up`."""
        return self.total - len(self.up)

    def may_read(self) -> bool:
        if self.sock is None or self.holding:
            return len(self.up) < WAITING_BYTES
        return len(self.up) - self.sent < HELD_BYTES

    # -- towards the daemon --------------------------------------------------------------------------

    def from_client(self, data: bytes) -> None:
        if self.dropping:
            at = data.find(b"\n") + 1
            self.client_line.add(data[: at - 1] if at else data)
            if not at:
                return
            self.dropping, data = False, data[at:]
            for message in self.client_line.end()[0]:
                self.lose(message.get("id"), sent=False)
        base = self.total
        self.up += data
        self.total += len(data)
        self.flush_up()
        start = 0
        while (at := data.find(b"\n", start)) >= 0:
            self.client_line.add(data[start:at])
            messages, line = self.client_line.end()
            for message in messages:
                self.sent_up(message, line, base + at + 1)
            start = at + 1
        self.client_line.add(data[start:] if start else data)
        if len(self.up) >= WAITING_BYTES:
            self.want_daemon()  # the end of this line is not read before a daemon takes what is held

    def sent_up(self, message: Message, line: bytes, end: int) -> None:
        """Remember what a line of the client means for a later daemon."""
        method, ident = message.get("method"), as_key(message.get("id"))
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if method is None:
            self.questions.pop(ident, None)
        elif method == "notifications/cancelled":
            self.open.pop(as_key(params.get("requestId")), None)
        elif method == "notifications/initialized":
            self.initialized = line
        elif "id" in message and isinstance(ident, str | int):
            self.request(method, ident, params, Open(method, end, line if method in REPEATED else b""))
            if method == "logging/setLevel":
                self.settings["level"] = Open(method, end, line)
            elif method == "resources/subscribe":
                self.settings["uri", as_key(params.get("uri"))] = Open(method, end, line)
            elif method == "resources/unsubscribe":
                self.settings.pop(("uri", as_key(params.get("uri"))), None)

    def request(self, method: object, ident: object, params: Message, request: Open) -> None:
        self.open[ident] = request
        if method == "initialize":
            self.handshake, self.initialized = request, b""
        if method in SAVED and not self.known:
            if self.sock is None:
                self.answer_saved(ident, params)
            else:
                self.early.append((ident, params))
                self.early_at = time.monotonic() + GREETING_SECONDS
        if self.sock is not None and not self.holding:
            return
        base = self.base
        if request.end <= base and ident in self.open and method not in REPEATED:
            self.lose(ident, sent=True)  # the connection ended while it was sent
        if sum(one.end > base for one in self.open.values()) > WAITING_REQUESTS:
            start = self.up.rfind(b"\n", 0, request.end - base - 1) + 1
            self.up[start : request.end - base - 1] = b" " * (request.end - base - 1 - start)
            self.lose(ident, sent=False, why=f"{WAITING_REQUESTS} requests wait for the daemon already")
        else:
            self.want_daemon()

    def want_daemon(self) -> None:
        """Have a daemon started, unless there is one or it is being started."""
        if self.sock is None and not self.wanted:
            self.wanted, self.spawned, self.ungreeted = True, False, 0
            self.next_try = time.monotonic()
            self.give_up = self.next_try + self.start_seconds

    def to_send(self) -> bool:
        if self.holding:
            return bool(self.first) or self.sent > 0 or self.torn or not self.held
        return bool(self.first) or self.sent < len(self.up)

    def flush_up(self) -> None:
        if self.sock is None:
            return
        try:
            while self.first:
                del self.first[: self.sock.send(self.first)]
            last = len(self.up)
            if self.holding:  # only what completes a line that has begun
                last = 0 if not (self.sent or self.torn) else self.up.find(b"\n", self.sent) + 1 or last
            while self.sent < last:
                with memoryview(self.up) as view:
                    self.sent += self.sock.send(view[self.sent : last])
                self.forget_sent()
                last = len(self.up) if not self.holding else self.sent
            if self.holding and not (self.held or self.sent or self.torn):
                self.sock.send(PRIVATE + b'"held"}\n')
                self.held = True
        except BlockingIOError:
            pass
        except OSError:
            # The loop notices the end and first reads what the daemon wrote before it. Not here: the lines that were to
            # be sent are looked at later, and a request that is not known yet could not be answered.
            if len(self.down) >= HELD_BYTES:  # nothing is read for now
                self.lost()

    def forget_sent(self) -> None:
        """Keep of `up` what would have to be sent again: the line that is not sent to its end."""
        whole = self.up.rfind(b"\n", 0, self.sent) + 1
        if whole:
            self.torn = False
            del self.up[:whole]
            self.sent -= whole
        if self.sent > HELD_BYTES:
            del self.up[: self.sent]
            self.sent, self.torn = 0, True

    # -- towards the client --------------------------------------------------------------------------

    def receive(self) -> None:
        while self.sock is not None and len(self.down) < HELD_BYTES:
            try:
                data = self.sock.recv(CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.lost()
                return
            self.from_daemon(data)

    def from_daemon(self, data: bytes) -> None:
        arriving = self.arriving
        arriving += data
        if self.streaming:
            at = arriving.find(b"\n") + 1
            part = bytes(arriving[:at] if at else arriving)
            del arriving[: len(part)]
            self.down += part
            self.daemon_line.add(part)
            if at:
                self.streaming = False
                for message in self.daemon_line.end()[0]:
                    self.sent_down(message)
        if at := arriving.rfind(b"\n") + 1:
            block = bytes(arriving[:at])
            del arriving[:at]
            if self.swallowed or self.acknowledged or PRIVATE in block:
                for line in block[:-1].split(b"\n"):
                    self.one_line(line)
            else:
                self.down += block
                self.flush_down()
                for line in block[:-1].split(b"\n"):
                    for message in look(line):
                        self.sent_down(message)
        if len(arriving) > HELD_BYTES or (arriving and self.streaming):
            self.streaming = True
            self.down += arriving
            self.daemon_line.add(arriving)
            arriving.clear()
        self.flush_down()

    def one_line(self, line: bytes) -> None:
        """Forward a line unless it is private or answers something that the client did not send."""
        if line.startswith(PRIVATE):
            message = read(line)
            if isinstance(message, dict):
                self.private(message)
            return
        if all(self.is_for_client(message) for message in look(line)):
            self.down += line + b"\n"

    def private(self, message: Message) -> None:
        kind = message.get("gatemini")
        if kind == "chain" and (request := self.open.get(as_key(message.get("request")))) is not None:
            request.chain = message.get("chain")
        elif kind == "draining":
            self.holding, self.wanted = True, bool(message.get("restart"))
        elif kind == "failed":
            self.close_socket()
            self.failed(str(message.get("reason")))
        elif kind == 1 and not self.fits(message):
            self.close_socket()
            self.failed(
                f"the daemon that runs is of version {message.get('version')}, which cannot serve version "
                f"{__version__}: it ends when it is idle, or by `gatemini restart`"
            )
        elif kind == 1:
            self.greeted = self.known = True
            self.spawned, self.ungreeted = False, 0
            self.pause = FIRST_PAUSE
            self.early.clear()

    def fits(self, greeting: Message) -> bool:
        """Whether the daemon of this greeting can serve this proxy."""
        features = greeting.get("features")
        return greeting.get("version") == __version__ or (
            isinstance(features, list) and NEEDED.issubset(features)
        )

    def close_socket(self) -> None:
        if self.sock is not None:
            self.sock.close()
        self.sock, self.sent = None, 0
