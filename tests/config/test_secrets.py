"""Which values are secrets, that they do not print themselves, and that no text leaves with one in it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import logging
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemini.config.load import Loaded
from gatemini.config.variables.redaction import RedactingFormatter, Redactor, SecretText, looks_secret
from gatemini.config.variables.store import SecretStore

Load = Callable[..., Loaded]


SLASHED = 'abc/def/"ghi"&jkl'


def test_secrets_are_what_env_headers_and_url_credentials_take(load: Load) -> None:
    text = """\
secrets: {redact: [LISTED, ALONE]}
backends:
  a: {command: "${PROG}", args: ["${ARG}", "${LISTED}"], cwd: "${DIR}", env: {A: "${ENV}", H: "${HOME}", D: "${NO:-default-1}"}}
  b: {url: "https://${HOST}/${PATHPART}?k=${QUERY}", headers: {X: "${HEADER}"}}
"""
    names = ("PROG", "ARG", "LISTED", "DIR", "ENV", "HOME", "HOST", "PATHPART", "QUERY", "HEADER", "ALONE")
    loaded = load(text, {name: f"value{name.lower()}" for name in names})
    assert {name for name, _ in loaded.secrets} == {"ENV", "QUERY", "HEADER", "LISTED", "ALONE"}


def test_a_value_of_the_secret_store_is_hidden_wherever_it_is_used(load: Load, tmp_path: Path) -> None:
    SecretStore(tmp_path / "conf" / "secrets").put("pw", "hush-hush-1")
    for written in (
        "{command: x, args: ['--password=${input:pw}']}",
        "{command: '${input:pw}'}",
        "{command: x, cwd: '/${input:pw}'}",
        "{url: 'https://h/${input:pw}/mcp'}",
        "{command: x, prerequisite: {command: y, args: ['${input:pw}']}}",
    ):
        loaded = load(f"backends: {{a: {written}}}\n")
        assert loaded.secrets == (("pw", "hush-hush-1"),), written
        assert "hush" not in repr(loaded.config.backends["a"].args)


def test_the_default_of_an_input_is_no_secret(load: Load) -> None:
    assert load("backends: {a: {command: x, args: ['${input:region:-eu-west-1}']}}\n").secrets == ()


def test_nothing_that_prints_a_configuration_prints_a_secret(load: Load) -> None:
    text = "backends: {a: {command: x, env: {T: '${K}'}}, b: {url: 'https://h/?k=${K}', headers: {X: 'b ${K}'}}}\n"
    loaded = load(text, {"K": "hush-hush-1"})
    backend = loaded.config.backends["a"]
    for shown in (
        repr(loaded),
        str(loaded.config),
        repr(backend),
        str(backend),
        repr(backend.env),
        f"{loaded!r}",
    ):
        assert "hush" not in shown
    assert repr(loaded.config.backends["b"].url) == "'«secret»'"
    assert backend.env["T"] == "hush-hush-1"
    assert json.loads(json.dumps(dict(backend.env))) == {"T": "hush-hush-1"}
    assert isinstance(backend.env["T"], SecretText)


def test_a_wrong_value_in_a_secret_place_is_not_quoted_in_the_finding(load: Load) -> None:
    loaded = load("backends: {a: {url: 'https://h:bad-hush-1/', headers: {X: [hush-hush-1]}}}\n")
    assert loaded.problems
    assert "hush" not in "".join(p.text() for p in loaded.problems) + str(loaded.disabled)


def test_redaction_replaces_every_spelling_and_the_longest_first() -> None:
    value = 'to/ken "1"'
    redactor = Redactor([("SHORT", "abc"), ("KEY", value), ("LONG", value + "-more"), ("WORD", "secret")])
    assert redactor.redact(f"a {value} b") == "a «secret KEY» b"
    assert redactor.redact(f"{value}-more") == "«secret LONG»"
    assert redactor.redact(quote(value, safe="")) == "«secret KEY»"
    assert redactor.redact(json.dumps({"k": value})) == '{"k": "«secret KEY»"}'
    assert redactor.redact("abc") == "abc"
    assert redactor.redact("my secret") == "my «secret WORD»"


def test_pieces_of_a_secret_at_a_cut_are_hidden() -> None:
    redactor = Redactor([("KEY", "tok_ABCDEFGHIJKLMNOP")])
    assert redactor.redact("a tok_ABCDEF…") == "a «secret KEY»…"
    assert redactor.redact(
        "a tok_ABCDEF ... [cut] ... JKLMNOP b"
    ) == "a tok_ABCDEF ... [cut] ... JKLMNOP b".replace("tok_ABCDEF", "«secret KEY»").replace(
        "JKLMNOP", "«secret KEY»"
    )
    assert redactor.redact("tok_AB…LMNOP") == "«secret KEY»…LMNOP", "five characters say nothing"
    assert redactor.redact("tok_ABCDEF is no piece, nor is …xyz tok_ABX…") == (
        "tok_ABCDEF is no piece, nor is …xyz tok_ABX…"
    )


@pytest.mark.load
@pytest.mark.parametrize("cut", ["", "…"])
def test_many_secrets_cost_less_than_as_many_looks_at_the_whole_text(cut: str) -> None:
    """22 secrets have 88 spellings with 154 texts to look for, and as many again beside the marks of cuts."""
    secrets = [
        (f"K{n}", base64.b32encode(hashlib.sha256(b"%d" % n).digest())[:40].decode().lower())
        for n in range(22)
    ]
    redactor = Redactor(secrets)
    rows = [{"id": n, "text": "the quick brown fox jumps over the lazy dog " * 3 + cut} for n in range(1_200)]
    text = json.dumps(rows, ensure_ascii=False)

    def least(act: Callable[[], object]) -> float:
        times = []
        for _ in range(15):
            began = time.perf_counter()
            act()
            times.append(time.perf_counter() - began)
        return min(times)

    looks = least(lambda: [value in text for _ in range(7) for _, value in secrets])
    assert least(lambda: redactor.redact(text)) < looks


def test_the_lines_of_a_key_file_are_hidden_one_by_one() -> None:
    redactor = Redactor([("PEM", "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----")])
    assert redactor.redact("log: MIIEvQIBADANBg") == "log: «secret PEM»"


def test_values_and_log_lines_are_cleaned_as_a_whole() -> None:
    redactor = Redactor([("KEY", "hush-hush-1")])
    before = {"a": ["x hush-hush-1", 1, None], "hush-hush-1": {"b": True}}
    assert redactor.value(before) == {"a": ["x «secret KEY»", 1, None], "«secret KEY»": {"b": True}}
    assert before["a"] == ["x hush-hush-1", 1, None]
    two = {"hush/hush/1": 1, "hush%2Fhush%2F1": 2}
    cleaned = Redactor([("KEY", "hush/hush/1")]).value(two)
    assert cleaned == {"«secret KEY»": 1, "«secret KEY» (2)": 2}, "no key hides another one"
    try:
        raise ValueError("hush-hush-1")
    except ValueError:
        failure = sys.exc_info()
    record = logging.LogRecord("n", logging.ERROR, "p", 1, "%s", ("hush-hush-1",), failure)
    line = RedactingFormatter(redactor, "%(message)s").format(record)
    assert line.startswith("«secret KEY»")
    assert "ValueError" in line
    assert "hush-hush" not in line


def test_a_secret_within_json_within_json_is_found_in_either_escaping() -> None:
    secret = 'a"b\\c: #d\n€'
    redactor = Redactor([("KEY", secret)])
    for ascii_only in (True, False):
        once = json.dumps({"k": secret}, ensure_ascii=ascii_only)
        for text in (once, json.dumps({"text": once}, ensure_ascii=ascii_only)):
            assert "«secret KEY»" in redactor.redact(text)
            assert "#d" not in redactor.redact(text)


def test_a_dataclass_is_cleaned_field_by_field_and_stays_one() -> None:
    @dataclass(frozen=True)
    class Seen:
        name: str
        counts: dict[int, str]

    seen = Seen("hush-hush-1", {1: "hush-hush-1"})
    assert Redactor([("KEY", "hush-hush-1")]).value(seen) == Seen("«secret KEY»", {1: "«secret KEY»"})


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_redacted_text_never_contains_a_secret(secret: str, before: str, after: str) -> None:
    marker = "«secret N»"
    clean = Redactor([("N", secret)]).redact(before + secret + after)
    assert marker in clean
    assert all(secret not in part for part in clean.split(marker)) or secret in marker


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "apiKey", "X-API-Key", "Authorization", "db.password", "OPENAI_KEY", "clientSecret"],
)
def test_names_that_say_secret_are_recognised(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["HOME", "LOG_LEVEL", "KEYBOARD", "TOKENIZER_PATH", "MONKEY", "NODE_ENV", "AUTHOR"]
)
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not looks_secret(name)


def _php(text: str) -> str:
    return json.dumps(text)[1:-1].replace("/", "\\/")


def _go(text: str) -> str:
    """Go's encoding/json; Ruby on Rails writes the same."""
    shown = json.dumps(text, ensure_ascii=False)[1:-1]
    return shown.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _dotnet(text: str) -> str:
    """System.Text.Json."""
    plain = " !#$%()*,-./:;=?@[]^_{|}~"
    return "".join(c if c in plain or (c.isascii() and c.isalnum()) else f"\\u{ord(c):04X}" for c in text)


def _with(entities: dict[str, str]) -> Callable[[str], str]:
    return lambda text: "".join(f"&{entities[c]};" if c in entities else c for c in text)


def _numbered(form: str) -> Callable[[str], str]:
    """OWASP's encoders write everything but letters and digits as numbers."""
    return lambda text: "".join(c if c.isascii() and c.isalnum() else form.format(ord(c)) for c in text)


def _lower(text: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), quote(text, safe=""))


_HTML = {"&": "amp", "<": "lt", ">": "gt", '"': "quot"}
WRITERS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON in ASCII": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON of PHP": _php,
    "JSON of Go": _go,
    "JSON of .NET": _dotnet,
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "JSON of PHP in JSON of PHP": lambda text: _php(_php(text)),
    "HTML of Python": html.escape,
    "HTML of Go": _with({**_HTML, '"': "#34", "'": "#39", "+": "#43"}),
    "HTML of Mustache": _with({**_HTML, "'": "#39", "/": "#x2F", "`": "#x60", "=": "#x3D"}),
    "HTML of PHP": _with({**_HTML, "'": "#039"}),
    "HTML of OWASP": _numbered("&#x{:x};"),
    "HTML in decimals": _numbered("&#{};"),
    "HTML in named entities": _with({**_HTML, "/": "sol", "+": "plus", "=": "equals", "\u00f6": "ouml"}),
    "HTML in JSON of Go": lambda text: _go(html.escape(text)),
    "HTML in HTML": lambda text: html.escape(html.escape(text)),
    "URL": lambda text: quote(text, safe=""),
    "URL path": quote,
    "URL of encodeURI": lambda text: quote(text, safe=";/?:@&=+$,#!'()*"),
    "URL of encodeURIComponent": lambda text: quote(text, safe="!'()*"),
    "URL in lower case": _lower,
    "URL in URL": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "form of Java": lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
    "shell": shlex.quote,
    "repr": lambda text: repr({"key": text}),
    "repr of bytes": lambda text: repr(text.encode()),
    "quotes of SQL and YAML": lambda text: "'" + text.replace("'", "''") + "'",
    "base64 in lines": lambda text: base64.encodebytes(
        b"user@example.org/token-of:" * 2 + text.encode()
    ).decode(),
    "base64 in lines in JSON": lambda text: json.dumps(
        base64.encodebytes(b"x" * 50 + text.encode()).decode()
    ),
    "base64 in JSON of PHP": lambda text: _php(base64.b64encode(text.encode()).decode()),
    "base64 in a URL": lambda text: quote(base64.b64encode(b"u:" + text.encode()).decode(), safe=""),
    "base64 for URLs without padding": lambda text: (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    ),
}


@pytest.mark.parametrize(
    "secret",
    [
        'sk_live"9fZ+q/7Lw=x81',
        "pa/ss+w\u00f6rd\"<&'>=7Q Zx`~",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "a/b+c/d==",
        "back\\\\slash\\'\"tick",
        "-----BEGIN KEY-----\nMIIEvAIBADANBgkq/hkiG9w0+BAQ==\n-----END KEY-----\n",
    ],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_secret_is_hidden_however_an_ordinary_server_writes_it(writer: str, secret: str) -> None:
    written = WRITERS[writer](secret)
    told = Redactor([("KEY", secret)]).redact(f"before {written} after")
    assert "«secret KEY»" in told
    for run in re.findall("[A-Za-z0-9]{4,}", secret if "base64" not in writer else ""):
        assert run not in told
    longest = max(re.findall("[A-Za-z0-9]+", written), key=len)
    assert longest not in told or len(longest) < 6 or "base64 in lines" in writer


@pytest.mark.parametrize(
    "shown",
    [
        r"abc\/def\/\"ghi\"&jkl",
        r"abc\\\/def\\\/\\\"ghi\\\"&jkl",
        "abc/def/&quot;ghi&quot;&amp;jkl",
        "abc/def/&#34;ghi&#34;&amp;jkl",
        'abc/def/"ghi"&amp;jkl',
        *(
            encode(f"{before}{SLASHED}{after}".encode()).decode()
            for before in ("", "u:", "user:", "admin:")
            for after in ("", "!", "\n")
            for encode in (base64.b64encode, base64.urlsafe_b64encode)
        ),
    ],
)
def test_a_secret_is_hidden_as_json_html_and_base64_show_it(shown: str) -> None:
    told = Redactor([("KEY", SLASHED)]).redact(f"Basic {shown}, got")
    assert "«secret KEY»" in told
    decoded = base64.b64encode(SLASHED.encode()).decode()[2:-4]
    for part in ("def", "ghi", decoded):
        assert part not in told
