"""Constants of quickjs.py that depend on QuickJS' build are compared with the guest at boot."""

from __future__ import annotations

import pytest

from gatemini_sandbox.errors import GuestTampered
from gatemini_sandbox.limits import Limits
from gatemini_sandbox.webassembly import image, quickjs
from gatemini_sandbox.webassembly.engine import Engine

WRONG = {
    "UNDEFINED": (4 << 32, "UNDEFINED"),
    "TAG_EXCEPTION": (7, "TAG_EXCEPTION"),
    "COUNTED_FROM": (0xFFFFFFFF, "COUNTED_FROM"),
    "EVAL_GLOBAL": (1, "EVAL_GLOBAL"),
    "JOB_THREW": (0xFFFFFFFD, "JOB_THREW"),
    "REJECTION_TRACKER": (74, "REJECTION_TRACKER"),
    "REJECTION_LIST": (40, "REJECTION_LIST"),
    "REJECTION": ("<IIIQxxxx", "REJECTION_LIST"),
}


@pytest.fixture(scope="module")
def engine(module_cache):
    return Engine(module_cache)


@pytest.mark.parametrize("constant", WRONG)
def test_a_constant_that_is_not_as_in_the_build_is_named(engine, monkeypatch, constant):
    wrong, named = WRONG[constant]
    assert getattr(quickjs, constant) != wrong
    monkeypatch.setattr(quickjs, constant, wrong)
    with pytest.raises(GuestTampered, match=named):
        image.boot(engine, Limits())


def test_a_stack_that_the_allocator_takes_for_heap_is_refused(engine, monkeypatch):
    monkeypatch.setattr(engine, "stack_bottom", engine.stack_bottom + quickjs.STACK_BYTES)
    with pytest.raises(GuestTampered, match="C stack as heap"):
        image.boot(engine, Limits())
