"""Static findings of what a wheel holds, or an installation's list of files; no import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from netcl_core.plugins.protocol import MANIFEST
from netcl_plugin_kit.check.declared import manifests, read
from netcl_plugin_kit.check.findings import CheckFinding
from netcl_plugin_kit.check.subject import Subject, module_of, parts_of
from netcl_plugin_kit.packages.record import UNLISTED, record_digest
from netcl_plugin_kit.packages.wheel_archive import is_safe

#: Of `.pth` files Python runs lines when it starts.
_RUN: Final = (".py", ".pth", ".pyd", ".so", ".dll", ".dylib")
_COMPILED: Final = (".pyc", ".pyo")
#: What an installer writes beside what the wheel holds.
_INSTALLERS: Final = ("INSTALLER", "REQUESTED", "direct_url.json")
#: What of a project's package has to be in its wheel.
_SHIPPED: Final = frozenset({".py", ".j2", ".cl", ".toml", ".json", ".typed"})
_MOST: Final = 5
_RECORD: Final = "its RECORD differs from what it holds:"


def check_contents(subject: Subject) -> Iterator[CheckFinding]:
    """Everything that can be said of a list of files, its RECORD and its entry points."""
    if not subject.plugins and not (subject.distribution and subject.distribution.problem):
        yield CheckFinding("NC101", f"{subject.name} has none")
    yield from _record(subject)
    yield from _missing(subject)
    yield from _modules(subject)
    for code, (what, is_wrong) in _PATHS.items():
        yield from _listed(code, [file for file in _own(subject) if is_wrong(file)], what)
    if subject.distribution is not None and subject.distribution.is_data:
        yield from _listed("NC110", [*_code(subject)], "it is data, and holds")
    yield from _listed("NC108", sorted(_strangers(subject)), "no entry point names")


def _own(subject: Subject) -> list[str]:
    """The files that came from the wheel: what Python compiled after it was installed did not."""
    if subject.packed is not None:
        return list(subject.files)
    return [
        file
        for file in subject.files
        if not file.endswith(_COMPILED)
        and not (".." in parts_of(file) and "bin" in parts_of(file))  # a console script
        and parts_of(file)[-1] not in _INSTALLERS
    ]


def _listed(code: str, paths: list[str], what: str) -> Iterator[CheckFinding]:
    if paths:
        more = f" and {len(paths) - _MOST} more" if len(paths) > _MOST else ""
        yield CheckFinding(code, f"{what} {', '.join(paths[:_MOST])}{more}")


# -- paths -----------------------------------------------------------------------------


def _is_test(path: str) -> bool:
    *folders, name = parts_of(path)
    named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return bool({"test", "tests"} & set(folders)) or (named and name.endswith(".py"))


def _is_outside(path: str) -> bool:
    return not is_safe(path)


def _is_compiled(path: str) -> bool:
    return "__pycache__" in parts_of(path) or path.endswith(_COMPILED)


#: What files may not be, said of them, and how it is known.
_PATHS: Final[dict[str, tuple[str, Callable[[str], bool]]]] = {
    "NC105": ("it holds the tests", _is_test),
    "NC106": ("it would write outside its folder:", _is_outside),
    "NC107": ("it holds the compiled", _is_compiled),
}


def _strangers(subject: Subject) -> set[str]:
    """What stands at the top level and belongs to no entry point."""
    allowed = subject.packages | {module_of(subject.name)}
    strangers = set()
    for path in _own(subject):
        parts = parts_of(path)
        if not parts or _is_outside(path) or parts[0].endswith((".dist-info", ".data")):
            continue
        if parts[0].split(".")[0] not in allowed:
            strangers.add(parts[0])
    return strangers


def _code(subject: Subject) -> Iterator[str]:
    """What a plugin that is data has and that Python, an installer or a shell would run."""
    for path in _own(subject):
        scripts = any(part.endswith(".data") for part in parts_of(path))
        if scripts or path.endswith(_RUN):
            yield path
    yield from (f"{name} in {group}" for group, name, _ in subject.points if group != MANIFEST)


# -- what has to be there --------------------------------------------------------------


def _record(subject: Subject) -> Iterator[CheckFinding]:
    """RECORD and the wheel's members name the same files, with the right digests."""
    if subject.packed is None:
        gone = [file for file in _own(subject) if not _path(subject, file).exists()]
        yield from _listed("NC102", [f"{file} (not there)" for file in gone], _RECORD)
        return
    there, listed = (
        {name for name in names if Path(name).name not in UNLISTED}
        for names in (subject.packed, subject.recorded)
    )
    twice = [file for file, count in Counter(subject.packed).items() if count > 1]
    wrong = [f"{file} (there twice)" for file in twice]
    wrong += [f"{file} (not listed)" for file in sorted(there - listed)]
    wrong += [f"{file} (not there)" for file in sorted(listed - there)]
    wrong += [
        f"{file} (another sha256)"
        for file in sorted(listed & there)
        if not _matches(_path(subject, file), subject.recorded[file])
    ]
    yield from _listed("NC102", wrong, _RECORD)


def _matches(path: Path, recorded: str) -> bool:
    """Whether a file has the digest of RECORD; what lies elsewhere or has none is not judged."""
    if not recorded.startswith("sha256=") or not path.is_file():
        return True
    with path.open("rb") as file:
        return record_digest(file) == recorded


def _path(subject: Subject, name: str) -> Path:
    return Path(str(subject.handle.locate_file(name)))


def _missing(subject: Subject) -> Iterator[CheckFinding]:
    """The project's files, the manifests that entry points name, the templates of manifests."""
    there = set(subject.files)
    gone = []
    for folder in _project_packages(subject):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder.parent).as_posix()
            if path.suffix in _SHIPPED and not _is_test(name) and name not in there:
                gone.append(name)
    for plugin, path in manifests(subject):
        rows = read(path).get("provides", ())
        for row in rows if isinstance(rows, list) else ():
            named = row.get("templates", ()) if isinstance(row, dict) else ()
            wanted = (str(file).partition("/") for file in named)
            gone += [
                f"templates/{file}"
                for prefix, _, file in wanted
                if prefix == plugin and not (path.parent / "templates" / file).is_file()
            ]
    yield from _listed("NC103", list(dict.fromkeys(gone)), "the wheel does not hold")


def _project_packages(subject: Subject) -> list[Path]:
    """The folders of the packages in the project, where they are found."""
    if not subject.project:
        return []
    root = Path(subject.project)
    places = [place / name for name in sorted(subject.packages) for place in (root / "src", root)]
    return [place for place in places if place.is_dir()]


def _modules(subject: Subject) -> Iterator[CheckFinding]:
    """The module of every entry point is a file of the wheel."""
    there = set(subject.files)
    for group, name, value in subject.points:
        module = value.partition(":")[0].partition("[")[0].strip().replace(".", "/")
        tries = [f"{module}/__init__.py", f"{module}.py"]
        tries += [f"{module}{suffix}" for suffix in EXTENSION_SUFFIXES]
        inside = any(file.startswith(f"{module}/") for file in there)  # a namespace package
        if not inside and there.isdisjoint(tries):
            yield CheckFinding("NC104", f"{name} = {value} in {group}")
