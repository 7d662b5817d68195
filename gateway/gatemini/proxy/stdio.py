"""Join a client's stdin and stdout to the daemon's socket; start the daemon if there is none.

One thread and one poll loop. Bytes are forwarded first and looked at later. What is remembered of them: which requests
are open, so that each is answered exactly once when the daemon ends, and the handshake, so that it can be repeated to
the next daemon without the client.
"""

import _signal  # type: ignore[import-not-found] # `signal` and `socket` import `enum`
import _socket
import os
import select
import sys
import time

from gatemini import __version__
from gatemini.proxy.lines import Message, written
from gatemini.proxy.memory import REPEATED
from gatemini.proxy.places import (
    NO_WORKING_FOLDER,
    STARTED,
    Place,
    PlaceRefused,
    config_file,
    place_of,
    spawn_daemon,
    take_lock,
)
from gatemini.proxy.wire import CHUNK, FIRST_PAUSE, HELD_BYTES, PRIVATE, WAITING_BYTES, Wire

LONGEST_PAUSE = 2.0
START_PAUSE = 0.02
"""Between two attempts to connect to a daemon that is starting."""
ANSWER_SECONDS = 2.0
"""How long open requests are waited for when the client has closed stdin."""
WATCH_SECONDS = 5.0
"""Between two looks at the parent process, where the system cannot notify us of its end."""
UNGREETED_TRIES = 3


class Proxy(Wire):
    """One client, and the daemon it is connected to, if any (`sock`)."""

    def __init__(self, place: Place, config: str | None, environ: dict[str, str]) -> None:
        super().__init__(place, environ)
        self.config = config
        self.cwd = os.getcwd()  # at the start: the folder may be removed while the client works
        self.closing, self.left, self.leave_at = False, False, 0.0
        self.parent, self.watch = os.getppid(), -1

    # -- the loop ------------------------------------------------------------------------------------

    def run(self) -> None:
        wake, waker = os.pipe()
        for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
            _signal.signal(number, lambda *_: os.write(waker, b"."))
        if self.parent > 0 and hasattr(os, "pidfd_open"):
            try:
                self.watch = os.pidfd_open(self.parent)
            except OSError:
                pass
        self.attempt(time.monotonic())
        while not self.finished():
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            if self.watch >= 0:
                poll.register(self.watch, select.POLLIN)
            if not self.closing and self.may_read():
                poll.register(0, select.POLLIN)
            poll.register(1, select.POLLOUT if self.down else 0)
            if self.sock is not None:
                reads = select.POLLIN if len(self.down) < HELD_BYTES else 0
                wanted = reads | (select.POLLOUT if self.to_send() else 0)
                if wanted:  # else the end of the daemon would be reported again and again
                    poll.register(self.sock.fileno(), wanted)
            self.serve(dict(poll.poll(self.timeout())), wake)

    def serve(self, events: dict[int, int], wake: int) -> None:
        if self.watch in events or (self.watch < 0 and os.getppid() != self.parent):
            self.say_bye()
            os._exit(0)
        if wake in events:
            os.read(wake, 64)
            self.close_input()
            self.leave_at = self.leave_at or time.monotonic() + ANSWER_SECONDS
        if 1 in events and not events[1] & select.POLLOUT:
            self.say_bye()  # the client does not read any more
            os._exit(0)
        if 0 in events:
            try:
                data = os.read(0, CHUNK)
            except OSError:
                data = b""
            if data:
                self.from_client(data)
            else:
                self.close_input()
        if self.sock is not None and (event := events.get(self.sock.fileno())):
            if event & ~select.POLLOUT:
                self.receive()
            self.flush_up()
        self.flush_down()
        self.tick(time.monotonic())

    def timeout(self) -> int:
        now, times = time.monotonic(), [WATCH_SECONDS] if self.watch < 0 else []
        if self.sock is None:
            times.append(self.next_try - now)
        if self.early:
            times.append(self.early_at - now)
        if self.leave_at or self.closing:
            times.append((self.leave_at or self.give_up) - now)
        return max(0, int(1000 * min(times)) + 1) if times else -1

    def tick(self, now: float) -> None:
        if self.sock is None and now >= self.next_try:
            self.attempt(now)
        if self.early and now >= self.early_at:
            early, self.early = self.early, []
            for ident, params in early:
                self.answer_saved(ident, params)
        if self.closing and not self.left and self.sock is not None and not (self.first or self.up):
            self.leave(now)

    def leave(self, now: float) -> None:
        """Begin to end: open requests may still be answered for ANSWER_SECONDS.

        A daemon that is still starting gets its time before that, unless a signal ends us.
        """
        starts = bool(self.open) and not (self.greeted or self.leave_at) and now < self.give_up
        if not starts:
            self.left = True
            self.say_bye()
            self.leave_at = self.leave_at or now + ANSWER_SECONDS

    def say_bye(self) -> None:
        """Nothing more will come, and nobody will come back to this session."""
        try:
            if self.sock is not None:
                self.sock.send(PRIVATE + b'"bye"}\n')
                self.sock.shutdown(_socket.SHUT_WR)
        except OSError:
            pass

    def finished(self) -> bool:
        if not self.closing or (self.down and time.monotonic() < (self.leave_at or 1e18)):
            return False
        unanswered = any(one.method != "subscriptions/listen" for one in self.open.values())
        if unanswered or self.to_send():
            return bool(self.leave_at) and time.monotonic() >= self.leave_at
        return bool(self.leave_at) or self.sock is None

    def close_input(self) -> None:
        if not self.closing:
            self.closing = True
            if self.client_line:
                self.from_client(b"\n")

    # -- the daemon comes and goes -------------------------------------------------------------------

    def attempt(self, now: float) -> None:
        sock = self.connect()
        if sock is None and (self.wanted or self.waits()):
            self.learn_start_seconds(now)
            sock = self.start()
        if sock is not None:
            self.connected(sock)
            return
        trying = self.wanted or self.waits()
        self.next_try = now + (START_PAUSE if trying else self.pause)
        self.pause = min(LONGEST_PAUSE, 2 * self.pause)
        if trying and now > self.give_up:
            self.failed(f"the daemon did not answer within {self.start_seconds:g} s")

    def learn_start_seconds(self, now: float) -> None:
        """Learn once how long a start may take, which the last daemon has left with its answers."""
        if not self.start_seconds_known:
            self.start_seconds_known = True
            seconds = self.last_saved().get("start_timeout")
            if isinstance(seconds, int | float):
                self.start_seconds = float(seconds)
                self.give_up = now + self.start_seconds

    def waits(self) -> bool:
        return any(one.end > self.base for one in self.open.values())

    def connect(self) -> _socket.socket | None:
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.connect(self.place.sock)
            sock.setblocking(False)
        except OSError:
            sock.close()
            return None
        return sock

    def start(self) -> _socket.socket | None:
        """Start a daemon unless another process does; a connection where one has come meanwhile."""
        try:
            lock = take_lock(self.place.lock)
            if lock is None:
                return None
            try:
                sock = self.connect()
                if sock is None:
                    self.spawn(lock)
                return sock
            finally:
                os.close(lock)
        except OSError as error:
            self.failed(f"the daemon cannot be started: {error.strerror}: {error.filename}")
            return None

    def spawn(self, lock: int) -> None:
        """Start a daemon with the lock that we hold. Raises OSError."""
        if self.spawned:
            self.failed("the daemon ended while it started")
            return
        if os.path.lexists(self.place.sock):
            os.unlink(self.place.sock)
        spawn_daemon(self.place, self.config, lock, self.environ)
        self.spawned = True

    def connected(self, sock: _socket.socket) -> None:
        self.sock, self.greeted, self.holding, self.held = sock, False, False, False
        self.wanted = False
        hello: Message = {"gatemini": 1, "version": __version__, "pid": os.getpid(), "cwd": self.cwd}
        lines = [
            written({**hello, "token": self.token, "returns": self.known, "environ": dict(self.environ)})
        ]
        lines += self.repeated(self.base)
        self.first = bytearray(b"".join(line + b"\n" for line in lines))
        self.flush_up()

    def lost(self) -> None:
        """The connection ended: answer what cannot be sent again, and connect anew."""
        if self.sock is None:
            return
        greeted, drained = self.greeted, self.holding
        self.close_socket()
        self.holding = False
        if self.torn:
            at = self.up.find(b"\n") + 1
            self.dropping, self.torn = not at, False
            torn = [ident for ident, one in self.open.items() if at and one.end == self.base + at]
            del self.up[: at or len(self.up)]
            for ident in torn:
                self.lose(ident, sent=False)
        base = self.base
        for ident, one in list(self.open.items()):
            if one.end <= base and one.method not in REPEATED:
                self.lose(ident, sent=greeted)  # a daemon greets before it reads any request
        for ident in self.questions:
            params = {"requestId": ident, "reason": "the gateway's daemon has ended"}
            self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        self.questions.clear()
        if self.streaming:
            self.down += b"\n"
            self.daemon_line.end()
        self.streaming = False
        self.arriving.clear()
        self.acknowledged.clear()
        self.swallowed = {ident: end for ident, end in self.swallowed.items() if end > base}
        now = time.monotonic()
        self.next_try, self.pause, self.give_up = now, FIRST_PAUSE, now + self.start_seconds
        if not drained:
            self.wanted = bool(self.settings) or any(o.method in REPEATED for o in self.open.values())
        if not greeted and not drained:
            self.ungreeted += 1
            if self.spawned or self.ungreeted > UNGREETED_TRIES:
                self.failed("the daemon ended while it started")

    def failed(self, reason: str) -> None:
        """No daemon can be had: everything that waits gets the reason; the next request tries once more."""
        last = [line for line in _last_lines(self.place.log) if line not in reason]
        log = "\n".join(["", *last]) if last else ""
        why = f"{reason}{log}\nMore: gatemini logs{f' -c {self.config}' if self.config else ''}"
        for ident in list(self.open):
            if self.handshake is not None and self.open[ident] is self.handshake:
                self.handshake = None
            self.lose(ident, sent=False, why=why)
        if self.handshake is not None:
            self.handshake.end = 0  # its answer came from the saved ones: the next daemon gets it again
        base = self.base
        self.settings = {key: one for key, one in self.settings.items() if one.end <= base}
        del self.up[: self.up.rfind(b"\n") + 1]
        if len(self.up) >= WAITING_BYTES:  # more of this line cannot be held: it is answered at its end
            self.dropping = True
            self.up.clear()
        self.swallowed.clear()
        self.early.clear()
        self.wanted = self.spawned = False
        self.ungreeted = 0
        self.next_try = time.monotonic() + LONGEST_PAUSE


def _last_lines(path: str) -> list[str]:
    """What the log has after the last start of a daemon, its secrets masked already: at most ten lines."""
    try:
        with open(path, "rb", 0) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(STARTED)[2].splitlines()[1:][-10:]


def main(given: str | None) -> None:
    """Serve the client of this process until it leaves. `given` is the path after `-c`."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # a client may start us with one closed: no socket of ours may get its number
            os.open(os.devnull, os.O_RDWR)
    environ = dict(os.environ)
    try:
        os.getcwd()
    except OSError as error:
        sys.stderr.write(f"gatemini: {NO_WORKING_FOLDER}: {error.strerror}\n")
        os._exit(1)
    config = config_file(given, environ)
    try:
        place = place_of(config, environ)
    except PlaceRefused as refused:
        sys.stderr.write(f"gatemini: {refused}\nA gateway of its own for this client:  gatemini --direct\n")
        os._exit(1)
    if os.isatty(0):
        sys.stderr.write("gatemini: waiting for an MCP client on stdin. All commands:  gatemini --help\n")
    Proxy(place, config, environ).run()
    os._exit(0)
