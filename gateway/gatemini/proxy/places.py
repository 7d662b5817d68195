"""Where the daemon of one configuration is reached, and how it is started.

The proxy and the daemon both use this file. It imports only what an interpreter has loaded anyway: the proxy's start is
measured against that of a bare interpreter.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` itself is not imported
if TYPE_CHECKING:
    from collections.abc import Iterable

SUN_PATH_BYTES = 103
"""The longest path of a Unix socket on every platform: `sun_path` has 104 bytes, one for the end."""

KEY_CHARS = 12 + len("-65535")
"""The longest key of a place: that of an HTTP server has its port."""

NO_WORKING_FOLDER = "the working folder has been removed, or cannot be read: start in another one"
DEMO = "demo"
"""The name of the configuration of a gateway without a file."""

STARTED = "gatemini: started "
"""In the first line that each daemon logs: what follows is about this start."""

LOG_GOES_ON = "the log goes on in "
"""In the last line that a daemon writes to its own log where its configuration names another file."""

PASSED_ON = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "SHELL", "TERM", "TZ"),
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"),
)  # fmt: skip
"""Variables of the client that a daemon is started with, beside XDG_* and GATEMINI_*."""


class PlaceRefused(Exception):
    """The folder of the socket cannot be trusted or made; the message says why."""


class Place:
    """The files of one daemon: `sock`, `lock`, `pid`, `log` and `hello`, all named for its key."""

    def __init__(self, folder: str, key: str, fallback: str = "") -> None:
        self.folder = folder
        self.key = key
        self.fallback = fallback
        """Why the folder is not below XDG_RUNTIME_DIR, although that is set."""
        stem = f"{folder}/{key}"
        self.sock, self.lock, self.pid = f"{stem}.sock", f"{stem}.lock", f"{stem}.pid"
        self.log, self.hello = f"{stem}.log", f"{stem}.hello"

    def stderr(self, backend: str) -> str:
        """The file of what a backend writes to stderr."""
        return f"{self.folder}/{self.key}.{backend}.stderr"


def config_file(given: str | None, environ: "os._Environ[str] | dict[str, str]") -> str | None:
    """The absolute path of the configuration: `-c`, else GATEMINI_CONFIG, else the default one if it is there."""
    path = given or environ.get("GATEMINI_CONFIG")
    if path:
        return os.path.abspath(os.path.expanduser(path))
    default = f"{config_folder(environ)}/config.yaml"
    return default if os.path.exists(default) else None


def config_folder(environ: "os._Environ[str] | dict[str, str]") -> str:
    """The platform's folder for our configuration, as `folders.config_folder` finds it (a test compares them)."""
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    if not os.path.isabs(base):
        base = os.path.expanduser(
            "~/Library/Application Support" if sys.platform == "darwin" else "~/.config"
        )
    return f"{base}/gatemini"


def place_of(config: str | None, environ: "os._Environ[str] | dict[str, str]") -> Place:
    """The place of the daemon for this configuration file (None: the demo). Raises PlaceRefused."""
    name = os.path.realpath(config) if config else DEMO
    # Not sys.prefix, which an interpreter without `site` does not set to the virtual environment.
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    key = _sha256("\0".join((name, prefix, str(os.getuid()))))[:12]
    folder, fallback = socket_folder(environ)
    return Place(folder, key, fallback)


def http_place(config: str | None, port: int, environ: "os._Environ[str] | dict[str, str]") -> Place:
    """The place of the HTTP server of this configuration on that port. Raises PlaceRefused."""
    place = place_of(config, environ)
    return Place(place.folder, f"{place.key}-{port}", place.fallback)


def values_digest(names: "Iterable[str]", environ: "os._Environ[str] | dict[str, str]") -> str:
    """A hash of the values of these variables, so that no value is written to the disk."""
    return _sha256("\0".join(f"{name}={environ[name]}" if name in environ else name for name in names))


def _sha256(text: str) -> str:
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found] # Python 3.11
        except ImportError:
            from hashlib import sha256
    return str(sha256(text.encode("utf-8", "surrogateescape")).hexdigest())


def socket_folder(environ: "os._Environ[str] | dict[str, str]") -> tuple[str, str]:
    """The private folder of all sockets, and why it is not below XDG_RUNTIME_DIR. Raises PlaceRefused."""
    base, reason = environ.get("XDG_RUNTIME_DIR", ""), ""
    if os.path.isabs(base):
        folder = f"{base}/gatemini"
        if len(os.fsencode(folder)) + len("/.sock") + KEY_CHARS > SUN_PATH_BYTES:
            reason = f"XDG_RUNTIME_DIR is too long for the path of a socket ({SUN_PATH_BYTES} bytes)"
        elif not os.path.isdir(base):
            reason = f"XDG_RUNTIME_DIR is no directory: {base}"
        else:
            private_folder(folder)
            return folder, ""
    folder = fallback_folder()
    private_folder(folder)
    return folder, reason


def fallback_folder() -> str:
    """Where the sockets are without a usable XDG_RUNTIME_DIR."""
    return f"/tmp/gatemini-{os.getuid()}"  # noqa: S108 - private_folder refuses one that is not ours


def private_folder(folder: str) -> None:
    """Make the folder for this user alone. Raises PlaceRefused for a link and for one that others own or may enter."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise PlaceRefused(f"{folder} cannot be made: {error.strerror}") from None
    facts = os.lstat(folder)
    if facts.st_mode & 0o170000 != 0o040000:
        raise PlaceRefused(f"{folder} is no directory of its own (a link or a file): remove it")
    if facts.st_uid != os.getuid():
        raise PlaceRefused(f"{folder} belongs to user {facts.st_uid}, not to {os.getuid()}")
    if facts.st_mode & 0o077:
        raise PlaceRefused(
            f"{folder} may be entered by others (mode {facts.st_mode & 0o777:o}): chmod 700 {folder}"
        )


def private_opener(path: str, flags: int) -> int:
    """Open a file of this user alone, and no link; for `open(path, …, opener=private_opener)`."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def take_lock(path: str) -> int | None:
    """A descriptor that holds the lock of this place, None while another process holds it."""
    import fcntl

    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def spawn_daemon(
    place: Place, config: str | None, lock: int, environ: "os._Environ[str] | dict[str, str]"
) -> None:
    """Start `gatemini serve` in a session of its own, with the log file as its output.

    The daemon inherits the lock, so that no moment is left in which a second one could start. It is no child of ours:
    a client that ends the proxy with all its descendants does not end the daemon of other clients.
    """
    log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    words = [sys.executable, "-P", "-m", "gatemini", "serve", "--lock-fd", str(lock)]
    words += ["--config", config] if config else []
    kept = {n: v for n, v in environ.items() if n in PASSED_ON or n.startswith(("XDG_", "GATEMINI_"))}
    middle = os.fork()
    if middle:
        os.close(log)
        os.waitpid(middle, 0)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        folder = os.path.dirname(config) if config else "/"
        os.chdir(folder if os.path.isdir(folder) else "/")
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.set_inheritable(lock, True)
        os.closerange(3, lock)
        os.closerange(lock + 1, 256)
        os.execve(sys.executable, words, kept)
    finally:
        os._exit(127)
