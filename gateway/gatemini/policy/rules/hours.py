"""Hours of rules such as `mon-fri 08:00-18:00`, in the local time of the gateway."""

from __future__ import annotations

from datetime import datetime

from gatemini.config.model.policy import HOURS, WEEKDAYS


class Hours:
    """One span of a week's days. Until `24:00` or past midnight, where it belongs to the day on which it began."""

    def __init__(self, text: str) -> None:
        first, last, *times = HOURS.fullmatch(text).groups()  # type: ignore[union-attr] # the model has checked it
        begin = WEEKDAYS.index(first) if first else 0
        count = (WEEKDAYS.index(last) - begin) % 7 + 1 if last else 1 if first else 7
        self._days = frozenset((begin + day) % 7 for day in range(count))
        hour, minute, until_hour, until_minute = map(int, times)
        self._from, self._until = hour * 60 + minute, until_hour * 60 + until_minute

    def __contains__(self, now: datetime) -> bool:
        minute, day = now.hour * 60 + now.minute, now.weekday()
        if self._from < self._until:
            return day in self._days and self._from <= minute < self._until
        return (day in self._days and minute >= self._from) or (
            (day - 1) % 7 in self._days and minute < self._until
        )
