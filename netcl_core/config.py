"""Every NETCL_* variable and every `[tool.netcl]` key, read in one place.

`get(name)` returns the validated value of a setting. The environment wins over
the file; the file is the nearest `pyproject.toml` with a `[tool.netcl]` table
above the working directory, else `netcl.toml` in the working directory. Values
are read when they are asked for, so a changed variable counts at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

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
    if word in {"0", "false", "no", "off"}:
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


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(raw: Any) -> str:
        text = _text(raw).lower()
        if text not in words:
            raise ValueError(f"{', '.join(words[:-1])} or {words[-1]}")
        return text

    return check


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
    """Op (`*`: every op) -> `<distribution>[:<implementation>]`, the first choice first."""
    ranking: dict[str, tuple[str, ...]] = {}
    if isinstance(raw, dict):
        for op, given in raw.items():
            ranking[op] = _names([given] if isinstance(given, str) else given)
        return ranking
    for name in _names(raw):
        distribution, op, label = (*(part.strip() for part in name.split(":", 2)), "", "")[:3]
        choice = f"{distribution}:{label}" if label else distribution
        ranking[op or "*"] = (*ranking.get(op or "*", ()), choice)
    return ranking


@dataclass(frozen=True)
class Setting:
    """One setting: its name in the file, its default, its check and its meaning."""

    name: str
    default: Any
    check: Callable[[Any], Any]
    doc: str
    own_variable: str = ""

    @cached_property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return self.own_variable or "NETCL_" + self.name.upper().replace("-", "_")


#: The market's one naming convention: a plugin's distribution is called `netcl-plugin-<name>`.
#: Settings may leave this prefix out. Where several plugins have one name, the plugin of the
#: distribution with exactly this name owns the template prefix `<name>/`.
MARKET_PREFIX: Final = "netcl-plugin-"
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "device",
            "",
            _text,
            "The default device: 'opencl:<index>', 'opencl:<part of a name>' or 'numpy' (the NumPy "
            "path). Empty, or PyTorch's 'cuda' or 'cpu': a GPU, else an OpenCL CPU device that "
            "passes its probe, else NumPy.",
        ),
        Setting(
            "icd-discovery",
            True,
            _flag,
            "Whether pip-installed OpenCL runtimes and an unlisted NVIDIA library are shown to the "
            "OpenCL loader. Off: the loader sees only what the system lists.",
        ),
        Setting(
            "cache", True, _flag, "Whether programs, templates and tuning records stay on disk."
        ),
        Setting(
            "cache-dir", "", _text, "The disk cache's folder. Empty: the platform's for netcl."
        ),
        Setting("cache-size-mb", 256, _positive, "The disk cache's bound in MiB."),
        Setting(
            "build-progress",
            "auto",
            _one_of("auto", "on", "off"),
            "Whether a line on stderr counts kernels whose building takes longer than a second: "
            "`auto` on a terminal and in a notebook, `on`, or `off`.",
        ),
        Setting(
            "tuning",
            "off",
            _one_of("off", "first-use"),
            "`first-use`: where there is no record of tuning, the first call that would use one "
            "measures, which needs the plugin of `netcl tune`. `off`: only that command does. "
            "Records are used in any case.",
        ),
        Setting(
            "tuning-budget-s",
            10,
            _positive,
            "For how many seconds a process may measure on first use, all calls together.",
        ),
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
            "The only plugins to load, with commas between them: `<distribution>` (where it begins "
            f"with `{MARKET_PREFIX}`, what follows will do) or `<distribution>:<plugin>`. Empty: "
            "none; not set: all.",
        ),
        Setting("plugins-disable", (), _names, "Plugins not to load, named as in `plugins`."),
        Setting(
            "trust",
            "all",
            _one_of("all", "data", "listed", "signed"),
            "Which plugins are loaded that `plugins` does not name. `all`: every one, where "
            "`plugins` is not set. `data`: those that are data, a manifest with templates of "
            "which no line is imported, and the core's own reader of such. `listed`: none. "
            "`signed`: those of which the lock file names the key, and it is held strictly.",
        ),
        Setting(
            "advisories",
            "",
            str,
            "A market's `advisories.json`: `netcl doctor` and `netcl plugins lock --check` say "
            "what of the installed has been withdrawn.",
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
            "or above the working directory. `0` (in the file `false`): none. In the file it "
            "counts only where nothing asks for a strict lock.",
        ),
        Setting(
            "lock-strict",
            False,
            _flag,
            "Whether an installation that does not fit the lock file is an error instead of a "
            "warning, and plugins that it does not know are not loaded. `plugins-strict` implies "
            "it.",
        ),
        Setting(
            "resolve",
            {},
            _ranking,
            "Which distribution serves an op that several offer, or which implementation. In the "
            'file a table: an op (or `"*"`: every op) and `distribution`, '
            "`distribution:implementation` or a list of them, the first choice first. In the "
            "variable `distribution`, `distribution:op` or `distribution:op:implementation`, with "
            "commas between them.",
            own_variable="NETCL_RANK",
        ),
    )
}


@lru_cache(maxsize=8)
def settings_file(working: str) -> tuple[Path, dict[str, Any]]:
    """The file whose settings hold for a working directory (it need not exist), and its table."""
    folder = Path(working)
    for place in (folder, *folder.parents):
        project = place / "pyproject.toml"
        if project.is_file():
            table = _parse(project).get("tool", {}).get("netcl")
            if isinstance(table, dict):
                return project, table
            break
    own = folder / "netcl.toml"
    return own, _parse(own) if own.is_file() else {}


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


@contextmanager
def variable(name: str, text: str) -> Iterator[None]:
    """Have an environment variable that others read, unless the user has set it."""
    chosen = os.environ.get(name)
    os.environ[name] = text if chosen is None else chosen
    try:
        yield
    finally:
        if chosen is None:
            del os.environ[name]


def get(name: str) -> Any:
    """The value of a setting: environment, else file, else default.

    Raises ConfigError, which names where the value stands, if it cannot be used.
    """
    setting = SETTINGS[name]
    raw: Any = os.environ.get(setting.variable)
    if raw is not None and (
        raw.strip() or setting.check is not _flag
    ):  # an empty switch is not set
        place = setting.variable
    else:
        _, table = settings_file(_working())
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


def working_folder() -> Path:
    """The working directory; the root where it was deleted, which is in no project."""
    return Path(_working())


def _working() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - a Path takes ten times as long
    except FileNotFoundError:
        return Path(__file__).anchor


def by_variable(name: str) -> bool:
    """Whether a setting comes from its environment variable."""
    return SETTINGS[name].variable in os.environ


def base_of(name: str) -> Path:
    """The folder from which a path in a setting counts: that of its file, or the working one."""
    here = working_folder()
    if by_variable(name):
        return here
    path, table = settings_file(str(here))
    return path.parent if name in table else here


def under_test() -> bool:
    """Whether pytest is running a test, which may be about something else than this."""
    return "PYTEST_CURRENT_TEST" in os.environ


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


def templates() -> Path:
    """The templates that came with the core: in the installed package, or in the checkout."""
    inside = Path(__file__).with_name("templates")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "templates"


def core_source(name: str) -> str:
    """The text of a file below the core's template folder, such as `kernels/probe.cl.j2`."""
    return (templates() / name).read_text(encoding="utf-8")
