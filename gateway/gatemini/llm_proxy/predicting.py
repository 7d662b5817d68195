"""The tools that the next step may need: by the gateway's search, by the upstream model, or by a function."""

from __future__ import annotations

import httpx2

from gatemini.config.model.context import ToolsConfig
from gatemini.context import (
    Prediction,
    Predictor,
    Question,
    Request,
    SearchPredictor,
    predict,
    prediction_prompt,
    read_prediction,
    user_message,
)
from gatemini.llm_proxy.client_request import ClientRequest
from gatemini.llm_proxy.meaning import MeaningOfTools
from gatemini.llm_proxy.ranking import by_meaning, by_words
from gatemini.llm_proxy.upstream import Upstream
from gatemini.llm_proxy.wire.answer import json_object
from gatemini.llm_proxy.wire.formats import WIRES
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

MOST_TOKENS = 1_000
"""Of an upstream model's answer: names of tools."""


class Predicting:
    """Predicts by one of the predictors; a failed prediction keeps all tools."""

    def __init__(
        self,
        settings: ToolsConfig,
        upstream: Upstream,
        *,
        predictor: Predictor | None = None,
    ) -> None:
        self._kind = settings.predictor
        self._predictor = predictor
        self._upstream = upstream
        self._limit = settings.limit
        self._search = SearchPredictor(settings.limit)
        self.meaning: MeaningOfTools | None = None

    async def predict(self, question: Question, request: ClientRequest, given: Request) -> Prediction:
        """Predict for one request."""
        if self._predictor is not None:
            return predict(self._predictor, question)
        if self._kind == "llm":
            return await self._by_model(question, request, given)
        return await self.by_search(question)

    async def by_search(self, question: Question) -> Prediction:
        """Predict by the gateway's search, by meaning too where there is a model."""
        index = self._search.index(question.tools)
        has_words = bool(question.query.strip())
        cosines = await self.meaning.cosines(index, question) if self.meaning and has_words else None
        if cosines is None:
            return by_words(index, question, self._limit)
        return by_meaning(index, question, cosines, self._limit)

    async def _by_model(self, question: Question, request: ClientRequest, given: Request) -> Prediction:
        """Ask the request's own model, with the client's key."""
        format = given.format
        body = _prompt_request(given, prediction_prompt(question))
        path = request.raw_path.replace(b":streamGenerateContent", b":generateContent")
        query = b"" if format == "gemini" and b"key=" not in request.query else request.query
        query = b"&".join(part for part in query.split(b"&") if part != b"alt=sse")
        fields = request.fields_for_reading
        try:
            sent = self._upstream.send(request, body, path=path, query=query, fields=fields)
            async with sent as response:
                answer = json_object(await response.aread())
        except httpx2.HTTPError as error:
            return Prediction(failure=type(error).__name__)
        if response.status_code != 200:
            return Prediction(failure=f"status {response.status_code}")
        return read_prediction(WIRES[format].text(answer), question)


def _prompt_request(given: Request, prompt: str) -> bytes:
    message = user_message(given.format, prompt).decode()
    if given.format == "gemini":
        return encode(f'{{"contents":[{message}]}}')
    model = dump(given.root.text_of("model") or "")
    limit = f'"max_tokens":{MOST_TOKENS},' if given.format == "anthropic" else ""
    return encode(f'{{"model":{model},{limit}"messages":[{message}]}}')
