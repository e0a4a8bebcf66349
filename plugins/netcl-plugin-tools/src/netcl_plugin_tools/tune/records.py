"""Writes the records of tuning that the core reads: one file each, whole or not at all.

So processes that write at once lose nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict

from netcl_core import config
from netcl_core.autograd import Settings
from netcl_core.inspect.choices import (
    FORM,
    HERE,
    VERSION,
    Place,
    Record,
    hold_record,
    record_path,
)


def write(place: Place, settings: Settings, gain: float) -> Record:
    """Keep a record of today, which takes effect at once; if the disk refuses, in this process."""
    record = Record(place, settings, gain, time.strftime("%Y-%m-%d"), HERE)
    try:
        if not config.get("cache"):
            raise OSError
        config.keep_whole(record_path(place), text_of([record]).encode())
    except OSError:
        hold_record(place, record)
    else:
        hold_record(place, None)
    return record


def forget(places: Sequence[Place]) -> None:
    """Remove the user's records for places."""
    for place in places:
        record_path(place).unlink(missing_ok=True)
        hold_record(place, None)


def text_of(records: Sequence[Record]) -> str:
    """A file of records, as the core and plugins have them."""
    rows = [
        {
            **asdict(each.place),
            "settings": dict(each.settings),
            "gain": round(each.gain, 4),
            "date": each.date,
        }
        for each in records
    ]
    return json.dumps({FORM: VERSION, "records": rows}, indent=1) + "\n"
