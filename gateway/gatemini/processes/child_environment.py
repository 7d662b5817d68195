"""What a child process sees: a small clean environment, its program, its working directory.

It never gets the gateway's whole environment, which holds other backends' secrets.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gatemini.errors import BackendStopped

_ALWAYS = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "SHELL", "TERM", "TZ"]
_PROXIES = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"]
_NETWORK = [*_PROXIES, *map(str.lower, _PROXIES)]
_CERTIFICATES = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
]
_WINDOWS = [
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
]


def child_environment(
    own: Mapping[str, str], *, inherit: Sequence[str] = (), source: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The child's variables: a fixed few and `inherit` from the gateway's, then `own` over them."""
    source = os.environ if source is None else source
    names = (*_ALWAYS, *_NETWORK, *_CERTIFICATES, *inherit, *(_WINDOWS if sys.platform == "win32" else ()))
    return {name: source[name] for name in names if name in source} | dict(own)


def find_program(command: str, environment: Mapping[str, str], cwd: str | None) -> str:
    """The absolute path of a command, searched in the child's PATH; raises `BackendStopped` naming what was searched."""
    expanded = os.path.expanduser(command)
    search = environment.get("PATH", os.defpath)
    if os.path.dirname(expanded):
        path = Path(cwd or ".", expanded)
        if not path.exists():
            raise BackendStopped(
                f"command not found: there is no file {str(path)!r}", hint="correct `command` in its config"
            )
        if path.is_dir() or not os.access(path, os.X_OK):
            raise BackendStopped(
                f"command cannot be run: {str(path)!r} is not an executable file",
                hint="correct `command`, or make the file executable",
            )
        return str(path.absolute())
    found = shutil.which(expanded, path=search)
    if found is None:
        raise BackendStopped(
            f"command not found: {command!r} is not in PATH (searched {search})",
            hint="install it, write its full path as `command`, or set PATH in the backend's `env`",
        )
    return found


def working_directory(cwd: str | None) -> str | None:
    """`cwd` with `~` expanded; raises `BackendStopped` if it is no directory."""
    if cwd is None:
        return None
    path = os.path.expanduser(cwd)
    if not os.path.isdir(path):
        raise BackendStopped(f"the working directory {path!r} does not exist", hint="correct `cwd`")
    return path
