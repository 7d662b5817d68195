"""The configurations that `gatemini init` writes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DEVELOPER = """\
# Gatemini configuration. Check it with `gatemini config check`, try it with `gatemini doctor`.
# All keys: docs/reference/configuration.md, or `gatemini config schema`.

backends:
  # The three embedded demo backends, as they are served while there is no file: replace them by your own.
  shop:
    module: gatemini.demo.shop:server
  notes:
    module: gatemini.demo.notes:server
  clock:
    module: gatemini.demo.clock:server

  # A server that is started as a process:
  # files:
  #   command: npx
  #   args: [-y, "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]

  # A server behind a URL. A variable that is not set disables only this backend, and says so.
  # search:
  #   url: https://mcp.example.com/mcp
  #   headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}
  #   timeout: 1m

# What agents may register by themselves with register_manual. These are the defaults: before a program is
# started or a server is contacted, a person is asked. deny refuses; allow does not ask, and takes only what
# allow_commands and allow_hosts list.
registration:
  http: ask
  stdio: ask
  cli: ask

# Which calls are allowed, denied, or asked about (docs/security.md). Labels for the data-flow guard that fit
# your backends: `gatemini init --labels`.
# policy:
#   rules:
#     - {tools: ["*"], annotations: {destructive: true}, action: ask}

# Other clients' files can be used as they are:
# include: [~/.cursor/mcp.json]
"""

_LOCKED_HEAD = """\
# Gatemini configuration for an install that a security review approves. Check it with `gatemini config check`.
# All keys: docs/reference/configuration.md. What the profile sets, and how to review it: docs/security.md.

# locked: calls are denied unless a rule allows them; only tools that are known to change nothing are allowed; what a
# session has read does not get out; approvals come from a console or a webhook, never from the client itself; agents
# register nothing; each sandbox process holds one guest; a missing secret stops the start; no program is run for one;
# every call is written to an audit log in the folder audit/ beside this file before it leaves; and servers are used
# once `gatemini pin` has approved them as they are, in gatemini.lock.yaml, which belongs into review.
# A key below that weakens any of this is an error, unless it is named here with a reason:
# profile_exceptions:
#   policy.read_only: "tickets are filed by agents; see the review of 2026-11-02"
profile: locked

"""

_BACKENDS = """\
backends:
  # The time of day and time zones: reads nothing else. Package mcp-server-time.
  time:
    command: {time}

  # Git repositories on this machine. Package mcp-server-git. Add `args: [--repository, /path]` for a single one.
  git:
    command: {git}
"""

_POLICY = """\
policy:
  # Both servers annotate their tools, and these are known to be right: without trust, hints only make things stricter.
  trust_annotations: [time, git]
  rules:
    # The first rule that applies decides; what none allows is denied (policy.default, set by the profile).
    - tools: ["time.get_current_time", "time.convert_time"]
      action: allow
    - tools: ["git.git_status", "git.git_log", "git.git_show", "git.git_branch", "git.git_diff*"]
      action: allow
  # What results carry for the data-flow guard: a session that has read private data reaches nothing open-world.
  labels:
    private: ["git.*"]
"""

_ABSENT = """\
# The two servers of this starter are not installed here, so their part is commented out. Install them, or write
# backends of your own:
#   pip install mcp-server-time mcp-server-git
backends: {}

"""


def locked() -> str:
    """Return the locked configuration for the servers that are installed here; else they are commented out."""
    time, git = _program("mcp-server-time"), _program("mcp-server-git")
    servers = _BACKENDS.format(time=time or "mcp-server-time", git=git or "mcp-server-git")
    if time and git:
        return f"{_LOCKED_HEAD}{servers}\n{_POLICY}"
    return f"{_LOCKED_HEAD}{_ABSENT}{_commented(servers)}\n{_commented(_POLICY)}"


def _program(name: str) -> str | None:
    """Return a program of PATH by its name, or one beside this interpreter by its path."""
    if shutil.which(name):
        return name
    beside = Path(sys.executable).with_name(name)
    return str(beside) if shutil.which(str(beside)) else None


def _commented(text: str) -> str:
    return "".join(f"# {line}\n" if line else "#\n" for line in text.splitlines())
