"""`backend.readResource(uri)` in the forms that code uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.running import DEMO, answer, running_app

pytestmark = pytest.mark.anyio

FORMS = [
    'demo.readResource("demo://greeting")',
    'demo.readResource({ uri: "demo://greeting" })',
    '__backends["demo"].call("readResource", "demo://greeting")',
    '__backends["demo"].call("readResource", { uri: "demo://greeting" })',
]
WRONG = ["demo.readResource()", "demo.readResource(5)", 'demo.readResource({ url: "demo://greeting" })']


async def test_a_resource_is_read_however_its_address_is_given_and_other_values_are_refused(
    tmp_path: Path,
) -> None:
    async with running_app(tmp_path) as app:
        expected = await answer(app, f"return await {FORMS[0]};")
        assert not expected[1]
        for form in FORMS:
            for code in (f"return await {form};", f"const r = await {form}; return r;"):
                assert (await answer(app, code))[:2] == expected[:2], code
        for form in WRONG:
            text, failed, _ = await answer(app, f"return await {form};")
            assert failed
            assert "takes the address of a resource" in text
            assert 'HINT: write demo.readResource("scheme://…")' in text


async def test_a_resource_is_read_through_the_namespace_of_its_backend(tmp_path: Path) -> None:
    async with running_app(tmp_path, {"demo": {**DEMO["demo"], "namespace": "far"}}) as app:
        text, failed, _ = await answer(app, 'return await far.readResource("demo://greeting");')
        assert (text, failed) == ("hello", False)
