"""Where netcl keeps files of its own, and where those lie that came with it."""

from __future__ import annotations

from pathlib import Path

from netcl_core import config


def cache_root() -> Path:
    """The configured cache folder, else the platform's for netcl."""
    chosen = config.get("cache-dir")
    if chosen:
        return Path(chosen)
    import platformdirs  # takes as long as the rest of a listing's files

    return Path(platformdirs.user_cache_dir("netcl", appauthor=False))


def plugin_states() -> Path:
    """The file that remembers which plugins failed."""
    return cache_root() / "plugins" / "states.json"


def manifest_memory() -> Path:
    """The file that remembers what stood in manifests."""
    return cache_root() / "plugins" / "manifests.json"


def lock_receipts() -> Path:
    """The folder that remembers what was verified of lock files."""
    return cache_root() / "plugins" / "locks"


def templates() -> Path:
    """The templates that came with the core: in the installed package, or in the checkout."""
    inside = Path(__file__).with_name("templates")
    return inside if inside.is_dir() else Path(__file__).parent.parent / "templates"
