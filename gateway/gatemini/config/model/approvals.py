"""`policy.approvals`: how a person is asked about calls."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from gatemini.config.model.backend import Strict

Channel = Literal["client", "console", "webhook"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
"""In the order in which they ask."""

_URL = re.compile(
    r"https://[^\s/?#]+(?:[/?#]\S*)?|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:[/?]\S*)?"
)
_REFERENCE = re.compile(r"secretref:[A-Za-z][A-Za-z0-9_-]*:\S.*")


def _url(text: str) -> str:
    if _URL.fullmatch(text) is None:
        raise ValueError("an https URL (http only on this machine: localhost, 127.0.0.1, [::1])")
    return text


def _reference(text: str) -> str:
    if _REFERENCE.fullmatch(text) is None:
        raise ValueError(
            "a reference to a secret, such as secretref:file:approvals.key; never the key itself"
        )
    return text


Reference = Annotated[str, AfterValidator(_reference)]
"""A `secretref:`."""


class WebhookConfig(Strict):
    """A web service that asks a person: gets signed requests, gives signed answers."""

    url: Annotated[str, AfterValidator(_url)]
    """Where requests are posted to; https, or http on this machine."""
    key: Reference
    """`secretref:` of the key that signs both ways, at least 16 bytes; one that begins with `whsec_` is base64."""


class ApprovalsConfig(Strict):
    """How a person is asked about calls, for all rules."""

    via: Annotated[tuple[Channel, ...], Field(min_length=1)] = CHANNELS
    """Channels that may be used at all, whatever `ask.via` of a rule allows."""
    webhook: WebhookConfig | None = None
    """The web service of the channel `webhook`."""
