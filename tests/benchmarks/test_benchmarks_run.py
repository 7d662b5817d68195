"""The benchmarks run and judge themselves by checked answers; the figures they measure are not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.benchmarks import context_jobs

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""Bounds one run: six processes start, three of them import FastMCP, on a machine that is busy with other tests."""


def benchmarks(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.mark.long
def test_the_hop_and_the_chains_are_measured_in_one_command() -> None:
    ran = benchmarks("hop", "inprocess", "--rounds", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert [f["contestant"] for f in figures["hop"]["figures"]] == ["direct", "gatemini", "fastmcp proxy"]
    assert [r["expected"] for r in figures["hop"]["ratios"]] == ["<= 0.4"]
    assert all(f["median_ms"] > 0 for f in figures["inprocess"]["figures"])


@pytest.mark.long
def test_a_session_costs_a_twentieth_of_loading_every_schema_and_raw_results() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.context_session", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ran.returncode == 0, ran.stderr
    measured = json.loads(ran.stdout)
    assert measured["less re-sent than with all schemas, %"] >= 95
    assert measured["same chains: times less than raw results on the data-heavy tasks (*)"] >= 8
    for way in measured["ways"].values():
        assert sum(way["resent_by_part"].values()) == way["resent"]


def test_the_jobs_of_agents_keep_to_their_goals() -> None:
    made = {name: job() for name, job in context_jobs.JOBS.items()}
    assert made["meter"]["jumps"] == [2, 4]
    assert made["meter"]["total"] == pytest.approx(414_840, rel=0.01)
    assert made["meter-fold"]["folded, handles over 2,000 tokens"]["total"] <= 52_000
    assert made["savings"]["share"] <= 0.5
    assert made["cache"]["same_as_the_one_before"] == context_jobs.REQUESTS - 1
    assert made["cache"]["for_56_kb"] == {"without": 448, "with": 95.2, "saved": 352.8, "saved_pct": 78.8}


@pytest.mark.long
def test_an_unknown_scenario_is_a_usage_error_that_names_it() -> None:
    ran = benchmarks("nonsense")
    assert ran.returncode == 2
    assert "nonsense" in ran.stderr


@pytest.mark.long
def test_guests_are_measured_without_a_client() -> None:
    ran = benchmarks("idle", "rival", "calls", "--rounds", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)
    assert {f["contestant"] for f in figures["calls"]["figures"]} == {"thread", "process"}
    assert [r["expected"] for r in figures["idle"]["ratios"]] == ["<= 2"]
    assert figures["rival"]["ratios"][0]["value"] > 0
