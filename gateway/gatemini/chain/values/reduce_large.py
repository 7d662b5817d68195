"""Reduce a large answer in the compute process, and keep the whole with the index of its rows."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

from gatemini.config.variables.redaction import Redactor
from gatemini.output.options import OutputOptions
from gatemini.output.pipeline import Plan, Reduced, kept, reduce_output
from gatemini.output.store.results import ResultStore
from gatemini.output.store.row_index import Batch, RowIndex
from gatemini.processes.workers.compute_process import compute, encoded, joined
from gatemini.processes.workers.worker_pool import WorkerFailed, WorkerLost

logger = logging.getLogger(__name__)


async def reduce_large(text: str, options: OutputOptions, store: ResultStore, redactor: Redactor) -> Reduced:
    """As `reduce_output`, without the secrets that the redactor knows."""
    body = await encoded(text)
    header = {"op": "reduce", "options": asdict(options), "secrets": redactor.secrets}
    try:
        answer, data = await compute(header, body)
    except (WorkerLost, WorkerFailed) as error:
        logger.warning("an answer is cut as text: %s", error)
        shown = redactor.redact(text)
        cut = replace(options, auto_chunk_json=False, table=False, intent_filter=False, budget_tokens=None)
        whole = None if shown == text else text
        return reduce_output(shown, options=cut, store=store, kept_text=whole)
    place, count, made = answer["text"], answer["bytes"], answer["plan"]
    shown = text if place is None else str(data[slice(*place)], "utf-8", "surrogatepass")
    if made is None:
        return Reduced(shown, bytes_in=count, bytes_out=count)
    plan = Plan(shown, made["notes"], made["footer"], made["kind"], _index(answer["index"]))
    return kept(plan, await joined(body), store, bytes_in=count)


def _index(made: Any) -> RowIndex | None:
    if made is None:
        return None
    batches = [Batch(**batch) for batch in made.pop("batches")]
    return RowIndex(**{**made, "keys": tuple(made["keys"]), "batches": batches})
