"""Every NETCL_* variable and every `[tool.netcl]` key, read in one place.

`get(name)` returns the validated value of a setting. The environment wins over
the file; the file is the nearest `pyproject.toml` with a `[tool.netcl]` table
above the working directory, else `netcl.toml` in the working directory. Values
are read when they are asked for, so a changed variable counts at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any

from netcl_core.errors import ConfigError, message


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("a text")
    return raw.strip()


def _flag(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    word = str(raw).strip().lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError("one of 1, 0, true, false, yes, no, on, off")


def _positive(raw: Any) -> int:
    try:
        number = int(raw)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise ValueError("a whole number of at least 1")
    return number


def _lock(raw: Any) -> str | None:
    """A path; empty: to be looked for; None: switched off."""
    if isinstance(raw, bool):
        return "" if raw else None
    text = _text(raw)
    return None if text.lower() in {"0", "false", "no", "off"} else text


def _names(raw: Any) -> tuple[str, ...]:
    """Names in a list, or in a text with commas."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise ValueError("a list of names, or a text of names with commas between them")
    return tuple(name for part in parts if (name := part.strip()))


def _ranking(raw: Any) -> dict[str, tuple[str, ...]]:
    """Op (`*`: every op) -> distributions, the first choice first."""
    ranking: dict[str, tuple[str, ...]] = {}
    if isinstance(raw, dict):
        for op, given in raw.items():
            ranking[op] = _names([given] if isinstance(given, str) else given)
        return ranking
    for name in _names(raw):
        distribution, _, op = name.partition(":")
        ranking[op or "*"] = (*ranking.get(op or "*", ()), distribution.strip())
    return ranking


@dataclass(frozen=True)
class Setting:
    """One setting: its name in the file, its default, its check and its meaning."""

    name: str
    default: Any
    check: Callable[[Any], Any]
    doc: str
    own_variable: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return self.own_variable or "NETCL_" + self.name.upper().replace("-", "_")


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "device",
            "",
            _text,
            "The default device: 'opencl:<index>', 'opencl:<part of a name>' or 'cpu' (the NumPy "
            "path). Empty: a GPU, else an OpenCL CPU device that passes its probe, else NumPy.",
        ),
        Setting(
            "icd-discovery",
            True,
            _flag,
            "Whether pip-installed OpenCL runtimes and an unlisted NVIDIA library are shown to the "
            "OpenCL loader. Off: the loader sees only what the system lists.",
        ),
        Setting("cache", True, _flag, "Whether built OpenCL programs are kept on disk."),
        Setting(
            "cache-dir",
            "",
            _text,
            "The folder of the disk cache. Empty: the platform's cache folder for netcl.",
        ),
        Setting("cache-size-mb", 256, _positive, "The disk cache's bound in MiB."),
        Setting(
            "plugins-autoload",
            True,
            _flag,
            "Whether installed plugins are loaded on the first use of an op. Off: only plugins "
            "given to `nc.plugins.register` exist.",
        ),
        Setting(
            "plugins",
            None,
            _names,
            "The only plugins to load, by their names or those of their distributions, with commas "
            "between them. Empty: none; not set: all.",
        ),
        Setting(
            "plugins-disable",
            (),
            _names,
            "Plugins not to load, by their names or those of their distributions.",
        ),
        Setting(
            "plugins-strict",
            False,
            _flag,
            "Whether a plugin that cannot be loaded is an error instead of a warning.",
        ),
        Setting(
            "lock",
            "",
            _lock,
            "The lock file to hold what is installed against. Empty: the nearest `netcl.lock` in "
            "or above the working directory. `0` (in the file `false`): none.",
        ),
        Setting(
            "lock-strict",
            False,
            _flag,
            "Whether an installation that does not fit the lock file is an error instead of a "
            "warning. `plugins-strict` implies it.",
        ),
        Setting(
            "resolve",
            {},
            _ranking,
            "Which distribution serves an op that several offer. In the file a table: an op (or "
            '`"*"`: every op) and a distribution or a list of them, the first choice first. In the '
            "variable `distribution:op` or `distribution`, with commas between them.",
            own_variable="NETCL_RANK",
        ),
    )
}


@lru_cache(maxsize=8)
def _file(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The `[tool.netcl]` table that holds for a working directory, and the folder of its file."""
    for place in (folder, *folder.parents):
        project = place / "pyproject.toml"
        if project.is_file():
            table = _parse(project).get("tool", {}).get("netcl")
            if isinstance(table, dict):
                return place, table
            break
    own = folder / "netcl.toml"
    return folder, _parse(own) if own.is_file() else {}


def _parse(path: Path) -> dict[str, Any]:
    import tomllib  # takes a while, and most processes find no file

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        raise ConfigError(
            message("netcl config", f"{path.name} cannot be read: {error}", "valid TOML")
        ) from error


def environment(**settings: str) -> dict[str, str]:
    """The environment for a child process in which these settings are others.

    Names are those of the settings, with an underscore for a hyphen.
    """
    changed = {SETTINGS[name.replace("_", "-")].variable: text for name, text in settings.items()}
    return {**os.environ, **changed}


def get(name: str) -> Any:
    """The value of a setting: environment, else file, else default.

    Raises ConfigError, which names where the value stands, if it cannot be used.
    """
    setting = SETTINGS[name]
    if setting.variable in os.environ:
        raw: Any = os.environ[setting.variable]
        place = setting.variable
    else:
        _, table = _file(Path.cwd())
        if name not in table:
            return setting.default
        raw = table[name]
        place = f"[tool.netcl] {name}"
    try:
        return setting.check(raw)
    except ValueError as error:
        raise ConfigError(
            message(place, f"the value {raw!r} cannot be used", str(error), setting.doc)
        ) from None


def base_of(name: str) -> Path:
    """The folder from which a path in a setting counts: that of its file, or the working one."""
    here = Path.cwd()
    if SETTINGS[name].variable in os.environ:
        return here
    folder, table = _file(here)
    return folder if name in table else here


def takes_styles() -> bool:
    """Whether a terminal may be sent bold text: not if NO_COLOR is set or TERM is `dumb`."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


# -- folders ---------------------------------------------------------------------------


def cache_root() -> Path:
    """The configured cache folder, else the platform's for netcl."""
    chosen = get("cache-dir")
    if chosen:
        return Path(chosen)
    import platformdirs  # takes as long as the rest of a listing's files

    return Path(platformdirs.user_cache_dir("netcl", appauthor=False))


def plugin_memory(name: str) -> Path:
    """A file of what is remembered of plugins, such as `states.json`."""
    return cache_root() / "plugins" / name


def write_whole(path: Path, data: bytes) -> None:
    """Write a file of the cache folder whole or not at all, whoever else writes it; or OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}-{get_ident()}.tmp")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def templates() -> Path:
    """The templates that came with the core: in the installed package, or in the checkout."""
    inside = Path(__file__).with_name("templates")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "templates"


def core_source(name: str) -> str:
    """The text of a file below the core's template folder, such as `kernels/probe.cl.j2`."""
    return (templates() / name).read_text(encoding="utf-8")
