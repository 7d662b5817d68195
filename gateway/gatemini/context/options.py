"""Requests in and out as bytes or as a dict, and options checked against the model of the configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from gatemini.context.request.formats import Request, parse_request
from gatemini.context.request.messages import Format
from gatemini.errors import InvalidRequest
from gatemini.output.json.json_text import dump
from gatemini.text.utf8 import encode

Given = bytes | Mapping[str, Any]
"""A request as its bytes, which keep all spellings, or as the dict that a program holds."""
_Options = TypeVar("_Options", bound=BaseModel)


class Outcome(NamedTuple):
    """The request, of the type that was given, and what was done to it."""

    request: Any
    report: dict[str, Any]


class WrongOption(InvalidRequest):
    """An option that does not exist or has a value that it cannot have."""

    code = "context.wrong_option"


def read_options(model: type[_Options], options: Mapping[str, Any] | BaseModel | None) -> _Options:
    """The options with their defaults. Raises WrongOption, which names the first wrong one."""
    if isinstance(options, model):
        return options
    given = options.model_dump() if isinstance(options, BaseModel) else dict(options or {})
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, ("options", *first["loc"])))
        if first["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields)
            raise WrongOption(f"{name}: no such option; there are {known}") from None
        raise WrongOption(f"{name}: {first['msg']}") from None


def opened(given: Given | Request, format: Format | None) -> Request:
    """The request, read. Raises NotARequest."""
    if isinstance(given, Request):
        return given
    data = given if isinstance(given, bytes) else encode(dump(dict(given)))
    return parse_request(data, format)


def outcome(given: Given | Request, read: Request, data: bytes, report: dict[str, Any]) -> Outcome:
    """`data` as the type that was given; what did not change since it was `read` is the very object."""
    if isinstance(given, bytes | Request):
        return Outcome(data, report)
    return Outcome(given if data == read.data else json.loads(data), report)
