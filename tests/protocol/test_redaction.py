"""No secret of the configuration is in any answer."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, MCPError

from fixtures.backend_bench import ODD
from fixtures.direct import DEMO_SERVER
from fixtures.running import running_app
from gatemini.app import App
from gatemini.protocol.mcp_server import build_server
from gatemini.protocol.stdio.shortcut import Shortcut

SECRET = "s3cr3t-Token-value"

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def app_with_token(
    folder: Path, monkeypatch: pytest.MonkeyPatch, secret: str, server: Path = DEMO_SERVER
) -> AsyncIterator[App]:
    """Run a gateway with one backend, which gets the secret through a variable."""
    monkeypatch.setenv("MY_TOKEN", secret)
    (folder / ".env").write_text(f"MY_TOKEN={secret}\n")
    backend = {"command": sys.executable, "args": ["-P", str(server)], "env": {"TOKEN": "${MY_TOKEN}"}}
    async with running_app(folder, {"demo": backend}) as app:
        yield app


async def test_a_secret_that_a_backend_gives_back_is_redacted_everywhere_it_could_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app_with_token(tmp_path, monkeypatch, SECRET) as app:
        session = app.new_session()
        surface = app.surface(session)
        half, rest = SECRET[:9], SECRET[9:]
        chains = {
            "value": f"const s = {half!r} + {rest!r}; return {{ s, n: s.length }};",
            "error": f"throw new Error({half!r} + {rest!r});",
            "console": f"console.log({half!r} + {rest!r}); return 1;",
            "tool error": f"return await demo.fail({{ message: {half!r} + {rest!r} }});",
            "handle": f"return await demo.echo({{ rows: Array(3000).fill({half!r} + {rest!r}) }});",
        }
        for name, code in chains.items():
            result = await surface.call_tool("call_tool_chain", {"code": code})
            assert SECRET not in json.dumps(result), name
            if name != "handle":  # the reduction shows no values there
                assert "«secret " in json.dumps(result, ensure_ascii=False), name
        # Inside the guest it is whole: only text that leaves is changed.
        result = await surface.call_tool("call_tool_chain", {"code": chains["value"]})
        assert json.loads(result["content"][0]["text"])["n"] == len(SECRET)
        (handle,) = [h for h in session.results.handles() if "rows" in str(session.results.info(h))][:1]
        assert SECRET not in (await surface.read_resource(f"gatemini://result/{handle}"))[1]
        keys = await surface.call_tool("get_required_keys_for_tool", {"tool_name": "demo.echo"})
        assert "TOKEN" in keys["content"][0]["text"]


async def test_no_part_of_a_secret_is_left_where_an_answer_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "tok_" + "".join(f"{i:02d}ab" for i in range(10))
    async with app_with_token(tmp_path, monkeypatch, secret) as app:
        session = app.new_session()
        surface = app.surface(session)
        made = f"const s = {secret[:5]!r} + {secret[5:]!r};"
        for code in (
            f'{made} return Array(3000).fill("x".repeat(60) + s);',
            f'{made} return ("y".repeat(990 % 7) + s).repeat(500);',
            f'{made} return Array.from({{ length: 900 }}, (_, id) => ({{ id, name: s + "z".repeat(id % 90) }}));',
            f"{made} for (let i = 0; i < 300; i++) console.log('x'.repeat(i % 90), s); return 1;",
            f"{made} console.log(s.repeat(1500)); return 1;",
            f"{made} throw new Error(s.repeat(1500));",
            f"{made} throw s.repeat(1500);",
            f"{made} return await demo.fail({{ message: s.repeat(1500) }});",
        ):
            for size in (200, 218, 236):
                answer = await surface.call_tool("call_tool_chain", {"code": code, "max_output_size": size})
                assert secret[:9] not in json.dumps(answer), code
        for pad in range(0, len(secret), 7):
            code = f'{made} return [["{"x" * pad}" + s.repeat(2000)], "y".repeat(9000)];'
            await surface.call_tool("call_tool_chain", {"code": code, "max_output_size": 1000})
            handle, offset, pages = session.results.handles()[0], "0", []
            while offset != "1":
                pages.append((await surface.read_resource(f"gatemini://result/{handle}/{offset}"))[1])
                offset = str(json.loads(pages[-1])["next_offset"])
            row = json.loads("".join(json.loads(page)["rows"][0]["part"] for page in pages))
            assert row == ["x" * pad + "«secret MY_TOKEN»" * 2000]
            assert len(pages) > 3
            assert not any(secret[:9] in page or secret[-9:] in page for page in pages)
        kept = [session.results.text(handle) for handle in session.results.handles()]
        assert any(secret in text for text in kept), "what is kept for code is whole"


async def test_a_secret_in_an_address_that_is_not_known_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with app_with_token(tmp_path, monkeypatch, SECRET, Path(ODD)) as app:
        surface = app.surface(app.new_session())
        async with Client(build_server(surface, Shortcut(surface))) as client:
            with pytest.raises(MCPError) as refused:
                await client.read_resource(f"gatemini://tool/{SECRET}")
    assert "«secret " in str(refused.value)
