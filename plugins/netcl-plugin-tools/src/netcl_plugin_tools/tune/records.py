"""The records of tuning: which settings were measured as the fastest, and where.

The user's lie in the cache folder, a file for each device, implementation and class of shapes,
each written whole or not at all, so that processes that write at once lose nothing. A plugin ships
others as `tuning/*.json` beside its templates. What cannot be used is ignored, with a reason.
"""

from __future__ import annotations

import json
import math
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

from netcl_core import config
from netcl_core.autograd import Settings
from netcl_core.files import keep_whole
from netcl_core.inspect.choices import Place
from netcl_core.inspect.data import digest
from netcl_core.inspect.sources import edition, folder_of
from netcl_core.plugins.protocol import registry

#: What a file of records says of itself, and the version of its form.
FORM: Final = "netcl tuning"
VERSION: Final = 1
#: No file of records comes near it: what is larger is something else.
_LARGEST: Final = 1 << 20


_OF_DEVICES: Final = frozenset({"platform", "device", "driver"})


def covers(mine: Place, other: Place) -> bool:
    """Whether a record for a place may serve another: an empty platform or driver means any."""
    pairs = [(field.name, getattr(mine, field.name), getattr(other, field.name))
             for field in fields(Place)]  # fmt: skip
    return all(one in {"", its} if name in _OF_DEVICES else one == its for name, one, its in pairs)


@final
@dataclass(frozen=True, slots=True)
class TuningRecord:
    """The settings that were the fastest.

    Attributes:
        gain: How many times as fast as the default.
        date: The day of the measurement, such as `2026-11-23`.
        source: Whose record it is, for readers; it is not stored.
    """

    place: Place
    settings: Settings
    gain: float
    date: str
    source: str = ""

    def __str__(self) -> str:
        faster = f"{self.gain:.2f} times as fast as the default"
        return f"{self.source} on {self.date}: {'the default' if self.gain == 1 else faster}"


def recorded(
    place: Place, prefix: str, fault_of: Callable[[Settings], str | None]
) -> tuple[TuningRecord | None, tuple[str, ...]]:
    """The record whose settings serve a place, and why others were ignored.

    The user's go before those of the plugin whose templates have a prefix. `fault_of` says why
    settings cannot be used.
    """
    own_ones, faults = own(place)
    others, more = shipped(place, prefix)
    ignored = [*faults, *more]
    for record in (*own_ones, *others):
        fault = fault_of(record.settings)
        if not fault:
            return record, tuple(ignored)
        ignored.append(f"{record.source} on {record.date}: {fault}")
    return None, tuple(ignored)


def doctor_rows() -> Iterator[tuple[str, bool, str]]:
    """What `netcl doctor` shows of the user's records."""
    records, faults = all_own()
    devices = sorted({record.place.device for record in records})
    if records:
        yield "records of tuning", True, f"{len(records)} for {', '.join(devices)} in {folder()}"
    for fault in faults:
        yield "record of tuning ignored", False, fault


# -- the user's ------------------------------------------------------------------------------

#: What could not be written, because nothing is kept on disk: it serves this process.
_unwritten: Final[dict[Place, TuningRecord]] = {}
#: The source of the user's records.
HERE: Final = "measured here"


def folder() -> Path:
    """The folder of the user's records (it need not exist yet)."""
    return config.cache_root() / "tuning"


def path_of(place: Place) -> Path:
    """The file of the user's record for a place."""
    return Path(f"{folder()}/{_name(place)}.json")


def _name(place: Place) -> str:
    return digest(*[getattr(place, field.name) for field in fields(place)])[:40]


def hold(place: Place, record: TuningRecord | None) -> None:
    """Let a record that could not be written serve this process; None: read the place again."""
    _unwritten.pop(place, None)
    if record is not None:
        _unwritten[place] = record
    registry.renew()


def own(place: Place) -> tuple[Sequence[TuningRecord], Sequence[str]]:
    """The user's record for a place, if there is one, and why a file was ignored.

    A file is looked for once, until this process changes a record: a new shape has mostly the
    class of others.
    """
    if place in _unwritten:
        return [_unwritten[place]], []
    if not config.get("cache"):
        return [], []
    return _own(place, config.get("cache-dir"), registry.version)


@lru_cache(maxsize=4096)
def _own(place: Place, folder: str, version: int) -> tuple[list[TuningRecord], list[str]]:
    return _of_file(path_of(place))


def all_own() -> tuple[list[TuningRecord], list[str]]:
    """All records of the user, and why files were ignored."""
    records, faults = list(_unwritten.values()), []
    for path in sorted(folder().glob("*.json")) if config.get("cache") else ():
        more, ignored = _of_file(path)
        records += more
        faults += ignored
    return records, faults


def _of_file(path: Path) -> tuple[list[TuningRecord], list[str]]:
    """The record that a file is for; others have no business there."""
    records, fault = read(path, HERE)
    faults = [_foreign(path, record) for record in records if path_of(record.place) != path]
    return [record for record in records if path_of(record.place) == path][:1], [
        *faults,
        *([fault] if fault else []),
    ]


def _foreign(path: Path, record: TuningRecord) -> str:
    return f"{path.name} holds a record of something else: {record.place}"


# -- a plugin's ------------------------------------------------------------------------------


def shipped(place: Place, prefix: str) -> tuple[list[TuningRecord], Sequence[str]]:
    """The records for a place that came with a plugin, those of this driver first."""
    records, faults = _shipped(prefix, edition())
    if not records:
        return [], faults
    covering = [record for record in records if covers(record.place, place)]
    return sorted(covering, key=lambda each: each.place != place), faults


@lru_cache(maxsize=64)
def _shipped(prefix: str, edition: int) -> tuple[list[TuningRecord], list[str]]:
    """All records beside the templates of a prefix; read again once templates have changed."""
    shipped_records: list[TuningRecord] = []
    faults: list[str] = []
    templates = folder_of(prefix)
    if templates is None:
        return shipped_records, faults
    folder = templates.parent / "tuning"
    for path in sorted(folder.glob("*.json")):
        records, fault = read(path, f"shipped as {folder.name}/{path.name}, measured")
        shipped_records += records
        faults += [fault] if fault else []
    return shipped_records, faults


# -- files -----------------------------------------------------------------------------------


def read(path: Path, source: str) -> tuple[list[TuningRecord], str]:
    """The records of a file, and why it was ignored, in whole or in part; empty: it was not."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
            return [], f"{path.name} is no file of records"
        rows = _rows(json.loads(path.read_bytes()))
        records = [_record(row, source) for row in rows]
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"{path.name} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:  # wrong JSON and wrong text are ValueErrors
        return [], f"{path.name} is damaged: {str(error) or type(error).__name__}"
    return records, ""


def _rows(data: Any) -> Sequence[Any]:
    if not isinstance(data, dict) or data.get(FORM) != VERSION:
        raise ValueError(f"it does not say {FORM!r}: {VERSION}")
    rows = data.get("records")
    if not isinstance(rows, list):
        raise ValueError("it has no list of records")
    return rows


def _record(row: Any, source: str) -> TuningRecord:
    if not isinstance(row, dict):
        raise ValueError(f"a record is a {type(row).__name__}")
    texts = dict(_texts(row))
    settings, gain = row.get("settings"), row.get("gain")
    if not isinstance(settings, Mapping):
        raise ValueError("a record has no settings")
    if not isinstance(gain, (int, float)) or not math.isfinite(gain) or gain <= 0:
        raise ValueError("a record's gain is no positive number")
    date = texts.pop("date")
    return TuningRecord(Place(**texts), MappingProxyType(settings), float(gain), date, source)


def _texts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in (*Place.__dataclass_fields__, "date"):
        text = row.get(name)
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"a record's {name} is no line of text")
        yield name, text


# -- writing ---------------------------------------------------------------------------------


def write(place: Place, settings: Settings, gain: float) -> TuningRecord:
    """Keep a record of today, which takes effect at once; if the disk refuses, in this process."""
    record = TuningRecord(place, settings, gain, time.strftime("%Y-%m-%d"), HERE)
    try:
        if not config.get("cache"):
            raise OSError
        keep_whole(path_of(place), text_of([record]).encode())
    except OSError:
        hold(place, record)
    else:
        hold(place, None)
    return record


def forget(places: Sequence[Place]) -> None:
    """Remove the user's records for places."""
    for place in places:
        path_of(place).unlink(missing_ok=True)
        hold(place, None)


def text_of(records: Sequence[TuningRecord]) -> str:
    """A file of records, as the core and plugins have them."""
    rows = [
        {
            **asdict(record.place),
            "settings": dict(record.settings),
            "gain": round(record.gain, 4),
            "date": record.date,
        }
        for record in records
    ]
    return json.dumps({FORM: VERSION, "records": rows}, indent=1) + "\n"
