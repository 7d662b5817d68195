"""Benchmarks. They use fixtures of the tests, which import each other as `fixtures`, as under pytest."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
