"""What is installed, for a lock file: versions, and digests of all files, each read now."""

from __future__ import annotations

from netcl_market.installed import Installed, by_name
from netcl_market.lock import Pin
from netcl_market.lock_verification import digest_now
from netcl_market.states import States
from netcl_market.survey import survey


def plugins() -> dict[str, Installed]:
    """Every installed distribution with a plugin, by its canonical name; imports none."""
    found = survey(States(), unlocked=True)
    return by_name(each.source for each in found if each.source is not None)


def pin(one: Installed) -> Pin:
    """What a lock says of a distribution."""
    data = one.source is not None and one.source.is_data
    return Pin(one.version, digest_now(one), one.editable, data)
