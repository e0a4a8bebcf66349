"""`netcl kernels list`: which kernels each plugin offers for an op, and its templates."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, final

import netcl_core as nc
from netcl_core.autograd import Operator, Requirements
from netcl_core.cli import print_json, print_table
from netcl_core.inspect.sources import folder_of
from netcl_core.plugins.protocol import Row, canonical, meant, registry


@final
@dataclass(frozen=True, slots=True)
class OfferedKernel:
    """One way to compute an op: an implementation, or what netcl makes of an expression.

    Attributes:
        needs: What a device has to be or to have.
        settings: What `netcl tune` may choose.
        templates: Those that the plugin's manifest names for the op.
    """

    op: str
    kernel: str
    provider: str
    priority: int
    needs: str
    settings: tuple[str, ...]
    templates: tuple[str, ...]


def show(name: str | None, as_json: bool) -> int:
    """Print the kernels of all ops, of one, or of a distribution; 2 if it is neither."""
    registry.load()
    installed = [plugin.distribution for plugin in nc.plugins.list()]
    wanted = None if name is None else meant(name, installed)
    rows = [row for op in sorted(registry.op_names()) for row in registry.op_rows(op)]
    kernels = [
        kernel
        for kernel in kernels_of(rows)
        if wanted is None or kernel.op == name or canonical(kernel.provider) in wanted
    ]
    files = {
        provider: texts
        for provider, texts in _files()
        if wanted is None or canonical(provider) in wanted
    }
    if not kernels and not files:
        return _unknown(str(name), {*registry.op_names(), *(row.provider for row in rows)})
    if as_json:
        print_json({"kernels": [asdict(kernel) for kernel in kernels], "templates": files})
    else:
        _print(kernels, files if wanted else {}, 3 if wanted is None else 5 if files else 6)
    return 0


def kernels_of(rows: Iterable[Row]) -> list[OfferedKernel]:
    """The ways to compute the ops of some rows of the registry."""
    declared = _declared()
    return [kernel for row in rows for kernel in _of(row, declared)]


def _unknown(name: str, known: set[str]) -> int:
    close = get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    print(
        f"netcl: kernels list: {name!r} is no op and no plugin that is active{hint}",
        file=sys.stderr,
    )
    return 2


def _declared() -> dict[tuple[str, str], tuple[str, ...]]:
    """The templates that manifests name: by distribution and op."""
    manifests = [
        (plugin.distribution, plugin.manifest) for plugin in nc.plugins.list() if plugin.manifest
    ]
    return {
        (distribution, row.name): row.templates
        for distribution, manifest in manifests
        for row in manifest.provides
    }


def _of(row: Row, declared: dict[tuple[str, str], tuple[str, ...]]) -> Iterator[OfferedKernel]:
    """The ways of one record of an op."""
    op = row.record.name

    def offered(kernel: str, provider: str, priority: int, way: Any = None) -> OfferedKernel:
        space = None if way is None else way.space
        settings = () if space is None else tuple(space.choices)
        needs = "" if way is None else _needs(way.requires)
        named = declared.get((provider, op), ())
        return OfferedKernel(op, kernel, provider, priority, needs, settings, named)

    if not isinstance(row.record, Operator):
        yield offered("made of its expression", row.provider, row.priority)
    elif row.record.view:
        yield offered("none: it is a view", row.provider, row.priority)
    else:
        for offer in row.record.offers():
            yield offered(offer.label, offer.provider, offer.priority, offer.item)


def _needs(requires: Requirements) -> str:
    parts = [*requires.device_kinds, *requires.extensions, *requires.dtypes]
    parts += ["a compiler that takes it"] if requires.compiles else []
    parts += ["shapes that suit it"] if requires.reject is not None else []
    return ", ".join(parts)


def _files() -> Iterator[tuple[str, list[str]]]:
    """The templates below each plugin's own prefix, by distribution."""
    for plugin in nc.plugins.list():
        folder = folder_of(plugin.prefix) if plugin.prefix else None
        if folder is not None:
            paths = sorted(path for path in folder.rglob("*.j2") if path.is_file())
            names = [f"{plugin.prefix}/{path.relative_to(folder).as_posix()}" for path in paths]
            yield plugin.distribution, names


def _print(kernels: Sequence[OfferedKernel], files: dict[str, list[str]], most: int) -> None:
    """A row for each kernel with at most so many columns, and the files of a plugin."""
    rows = [
        (
            kernel.op,
            kernel.kernel,
            kernel.provider,
            kernel.needs,
            ", ".join(kernel.settings),
            ", ".join(kernel.templates),
        )
        for kernel in kernels
    ]
    if rows:
        header = ("op", "kernel", "from", "needs", "settings", "templates")[:most]
        alike = len({kernel.provider for kernel in kernels}) == 1 and len(rows) > 1
        shown = [
            i for i in range(len(header)) if any(row[i] for row in rows) and (i != 2 or not alike)
        ]
        if alike:
            print(f"from {kernels[0].provider}\n")
        names = [header[i] for i in shown]
        print_table(names, [[row[i] for i in shown] for row in rows], names[1:])
    for provider, paths in files.items():
        print(f"\ntemplates of {provider}:" if rows else f"templates of {provider}:")
        for name in paths:
            print(f"  {name}")
