"""The shape of submitted code: what gives the value, and that it is decided from the parse."""

import pytest

from gatemini_sandbox.syntax import SandboxSyntaxError
from gatemini_sandbox.wrap import prepare


def test_a_file_that_only_declares_main_is_called() -> None:
    program = prepare("async function main() { return 7 }")
    assert program.shape == "main"
    assert "return await main()" in program.js


def test_the_words_export_default_in_a_string_do_not_make_a_module() -> None:
    program = prepare(
        '// export default async function main() {}\nconst note = "export default";\nreturn note.length;'
    )
    assert program.shape == "statements"


def test_an_import_of_a_value_is_refused_with_its_place() -> None:
    with pytest.raises(SandboxSyntaxError, match="no module system") as caught:
        prepare('const a = 1;\nimport fs from "node:fs";\nreturn fs;', ["demo"])
    assert (caught.value.line, caught.value.column) == (2, 1)
    assert "demo" in (caught.value.hint or "")
