"""Demo backend `clock`: the time in any zone, and units of measure."""

from __future__ import annotations

import difflib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from mcp.server.lowlevel import Server
from pydantic import BaseModel, Field

from gatemini.demo.toolbox import Refused, Toolbox

_UNITS: dict[str, dict[str, float]] = {
    "length": {"mm": 0.001, "cm": 0.01, "m": 1.0, "km": 1000.0, "in": 0.0254, "ft": 0.3048, "mi": 1609.344},
    "mass": {"g": 0.001, "kg": 1.0, "t": 1000.0, "oz": 0.028349523125, "lb": 0.45359237},
    "volume": {"ml": 0.001, "l": 1.0, "m3": 1000.0, "gal": 3.785411784},
    "time": {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
    "data": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024.0, "MiB": 1048576.0, "GiB": 1073741824.0},
}
"""Factor of each unit to its kind's base unit (metre, kilogram, litre, second, byte)."""

_TO_KELVIN = {"C": (1.0, 273.15), "F": (5 / 9, 459.67 * 5 / 9), "K": (1.0, 0.0)}
"""Scale and offset of each temperature unit to kelvin."""


@asynccontextmanager
async def _stateless(_server: Server[None]) -> AsyncIterator[None]:
    yield None


toolbox: Toolbox[None] = Toolbox("clock", "Time zones, dates and unit conversion.", _stateless)


class Moment(BaseModel):
    time: str = Field(description="ISO 8601 with its offset")
    timezone: str
    weekday: str
    utc_offset_minutes: int
    is_business_hours: bool = Field(description="Monday to Friday, 09:00 to 17:00 local time")


@toolbox.tool()
def now(
    _state: None,
    timezone: Annotated[str, Field(description="IANA name such as Europe/Berlin")] = "UTC",
) -> Moment:
    """Current date and time in a time zone."""
    return _moment(datetime.now(UTC), timezone)


@toolbox.tool()
def convert_time(
    _state: None,
    time: Annotated[
        datetime, Field(description="ISO 8601; without an offset it is read as local time of `source`")
    ],
    target: Annotated[str, Field(description="Time zone to convert to")],
    source: Annotated[str, Field(description="Time zone of `time`")] = "UTC",
) -> Moment:
    """Convert a date and time from one time zone to another."""
    return _moment(time if time.tzinfo else time.replace(tzinfo=_zone(source)), target)


class ZoneNames(BaseModel):
    timezones: list[str]


@toolbox.tool()
def list_time_zones(
    _state: None,
    region: Annotated[str, Field(description="Part of the name: Europe, America/Argentina, berlin")] = "",
) -> ZoneNames:
    """List the known IANA time zones, filtered by part of the name."""
    wanted = region.casefold()
    return ZoneNames(timezones=[name for name in _zone_names() if wanted in name.casefold()])


class Length(BaseModel):
    days: float
    hours: float
    business_days: int = Field(description="Days from Monday to Friday, start counted, end not")


@toolbox.tool()
def time_between(_state: None, start: datetime, end: datetime) -> Length:
    """Length of the span between two dates or times, in days, hours and business days."""
    start, end = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in (start, end))
    seconds = (end - start).total_seconds()
    first, last = sorted((start.date(), end.date()))
    whole = (last - first).days
    weeks, rest = divmod(whole, 7)
    business = weeks * 5 + sum((first + timedelta(days=day)).weekday() < 5 for day in range(rest))
    return Length(
        days=seconds / 86400, hours=seconds / 3600, business_days=business if seconds >= 0 else -business
    )


class Converted(BaseModel):
    value: float
    unit: str


@toolbox.tool()
def convert_units(
    _state: None,
    value: float,
    source: Annotated[str, Field(description="Unit of `value`: km, lb, C, MiB…")],
    target: Annotated[str, Field(description="Unit to convert to, of the same kind")],
) -> Converted:
    """Convert a length, mass, volume, temperature, duration or data size."""
    if source in _TO_KELVIN and target in _TO_KELVIN:
        scale, offset = _TO_KELVIN[source]
        back, below = _TO_KELVIN[target]
        return Converted(value=round((value * scale + offset - below) / back, 9), unit=target)
    for factors in _UNITS.values():
        if source in factors and target in factors:
            return Converted(value=value * factors[source] / factors[target], unit=target)
    kinds = [*(f"{kind}: {', '.join(units)}" for kind, units in _UNITS.items()), "temperature: C, F, K"]
    raise Refused(f"cannot convert {source!r} to {target!r}; units are {'; '.join(kinds)}")


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # available without time zone data
    try:
        return ZoneInfo(name)  # refuses names that would leave its folders
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        close = difflib.get_close_matches(name, _zone_names(), n=3, cutoff=0.5)
        raise Refused(
            f"unknown time zone {name!r}" + (f"; close: {', '.join(close)}" if close else "")
        ) from error


@cache
def _zone_names() -> tuple[str, ...]:
    """Return all names, sorted; cached, since finding them walks the file system."""
    return tuple(sorted(available_timezones()))


def _moment(time: datetime, zone: str) -> Moment:
    local = time.astimezone(_zone(zone))
    offset = local.utcoffset() or timedelta()
    return Moment(
        time=local.isoformat(timespec="seconds"),
        timezone=zone,
        weekday=local.strftime("%A"),
        utc_offset_minutes=round(offset.total_seconds() / 60),
        is_business_hours=local.weekday() < 5 and 9 <= local.hour < 17,
    )


server = toolbox.server()
