"""A starter table of labels for well-known servers, from which `gatemini init --labels` proposes a section to review.

It looks at names only: of backends, programs, packages, hosts and tools. What it does not know it names as such, and
nothing is applied without a person who has read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatemini.config.model.flow import LABELS, Label

BOTH: tuple[Label, ...] = ("untrusted", "private")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of server: words in the names of those that are known, and what they bring."""

    title: str
    words: frozenset[str]
    labels: tuple[Label, ...]


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _kind(title: str, words: str, *labels: Label) -> Kind:
    return Kind(title, _word_set(words), labels)


KINDS = (
    _kind(
        "web pages and search results",
        "fetch browser browse brave tavily exa firecrawl duckduckgo ddg serper serpapi searxng kagi perplexity playwright "
        "puppeteer browserbase selenium chrome crawl scrape crawler scraper web websearch wikipedia arxiv reddit rss "
        "hackernews youtube context7 deepwiki",
        "untrusted",
    ),
    _kind(
        "mail: others write it, and it is yours",
        "mail email gmail outlook imap smtp fastmail protonmail sendgrid mailgun resend postmark",
        *BOTH,
    ),
    _kind("calendars: others send invitations", "calendar gcal caldav calendly", *BOTH),
    _kind(
        "chat: others write it, and it is yours",
        "slack discord teams telegram whatsapp signal matrix mattermost zulip sms twilio messages imessage intercom zendesk",
        *BOTH,
    ),
    _kind(
        "code hosts: others write issues and pull requests, and repositories may be private",
        "github gitlab bitbucket gitea forgejo codeberg",
        *BOTH,
    ),
    _kind(
        "trackers and documents that others may write in",
        "jira linear asana trello monday clickup confluence notion atlassian sentry pagerduty figma miro airtable",
        *BOTH,
    ),
    _kind(
        "files",
        "filesystem files file gdrive drive dropbox onedrive sharepoint box s3 minio obsidian notes evernote documents "
        "memory git",
        "private",
    ),
    _kind(
        "databases",
        "postgres postgresql mysql mariadb sqlite mongodb mongo redis snowflake bigquery clickhouse duckdb supabase neon "
        "elasticsearch opensearch qdrant pinecone chroma weaviate neo4j mssql oracle database sql",
        "private",
    ),
    _kind(
        "customers, money, people",
        "stripe paypal hubspot salesforce crm quickbooks xero shopify workday bamboohr bank plaid",
        "private",
    ),
    _kind(
        "infrastructure and secrets",
        "kubernetes k8s docker aws azure gcp cloudflare terraform vault bitwarden 1password onepassword keychain secrets "
        "grafana datadog",
        "private",
    ),
)
"""The first kind with a word of a name decides."""

_TOOL_WORDS: tuple[tuple[frozenset[str], tuple[Label, ...]], ...] = (
    (_word_set("fetch browse scrape crawl websearch navigate"), ("untrusted",)),
    (
        _word_set("mail mails email emails inbox message messages thread threads conversation"),
        BOTH,
    ),
    (_word_set("file files document documents note notes contacts contact"), ("private",)),
)
"""Words of tools' names, for servers that no kind knows: only tools that read are labelled."""

_READS = _word_set(
    "get read list search find fetch query show load download export view open browse scrape crawl"
)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one backend: names that may say what it is, and its tools with their effective open-world hint."""

    name: str
    names: tuple[str, ...]
    tools: tuple[str, ...]
    closed: bool = False
    """Whether trusted or overridden hints say of all its tools that they are not open-world."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The labels that are proposed for tools of one backend, and why; without labels: what is left to a person."""

    globs: tuple[str, ...]
    labels: tuple[Label, ...]
    why: str


def propose(backends: Iterable[Known]) -> list[Proposal]:
    """Return one or more proposals for each backend, in the order of their names."""
    return [
        proposal for known in sorted(backends, key=lambda each: each.name) for proposal in _of_backend(known)
    ]


def _of_backend(known: Known) -> list[Proposal]:
    words = _words(known.names)
    kind = next((kind for kind in KINDS if kind.words & words), None)
    if kind is not None:
        return [Proposal((f"{known.name}.*",), kind.labels, kind.title)]
    found = []
    for of_tool, labels in _TOOL_WORDS:
        named = [tool for tool in known.tools if of_tool & (own := _words((tool,))) and _READS & own]
        if named:
            found.append(
                Proposal(
                    tuple(f"{known.name}.{tool}" for tool in named), labels, "by the names of these tools"
                )
            )
    if found:
        return found
    why = (
        "no label needed by its names"
        if known.closed
        else "not known: it counts as open-world, so as untrusted"
    )
    return [Proposal((f"{known.name}.*",), (), why)]


def _words(names: Iterable[str]) -> frozenset[str]:
    """The words in names, in small letters: of snake_case, kebab-case, camelCase, paths and hosts."""
    text = " ".join(names)
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return frozenset(re.findall(r"[a-z0-9]+", split.lower()))


def section(proposals: Sequence[Proposal]) -> str:
    """Return the proposals as a section of the configuration, commented out line by line, for a person to review."""
    lines = [
        "# Proposed labels for policy.flow: review each line, then remove the `#` of those that are right.",
        "# They are guessed from names; nothing here is in force until you do.",
        "# policy:",
        "#   flow: ask   # off, warn, ask, deny",
        "#   labels:",
    ]
    for label in LABELS:
        labelled = [proposal for proposal in proposals if label in proposal.labels]
        lines.append(f"#     {label}:" + ("" if labelled else " []"))
        lines += [f"#       - {_quoted(glob)}   # {p.why}" for p in labelled for glob in p.globs]
    for proposal in proposals:
        if not proposal.labels:
            lines.append(f"#   {', '.join(proposal.globs)}: {proposal.why}")
    return "\n".join(lines) + "\n"


def _quoted(glob: str) -> str:
    return f'"{glob}"'
