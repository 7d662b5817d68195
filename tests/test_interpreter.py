"""A serving process gives every thread its turn soon."""

from __future__ import annotations

import gc
import sys

import pytest

from gatemini.interpreter import TURN_SECONDS, prepare


def test_a_serving_process_has_short_turns_and_does_not_walk_what_was_imported() -> None:
    before = sys.getswitchinterval()
    try:
        prepare()
        assert sys.getswitchinterval() == pytest.approx(TURN_SECONDS)
        assert gc.get_freeze_count() > 0
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()
