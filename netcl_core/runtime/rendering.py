"""Templates: the Jinja environment, one prefix per plugin, rendering, and its errors.

`core/...` is the core's own folder, `<prefix>/...` a plugin's. Undefined names
are errors, so a misspelt variable never becomes an empty kernel. All of it happens in a sandbox.
"""

from __future__ import annotations

import marshal
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, final

import jinja2
from jinja2.bccache import Bucket
from jinja2.exceptions import SecurityError
from jinja2.loaders import split_template_path
from jinja2.sandbox import ImmutableSandboxedEnvironment

from netcl_core import cache, config
from netcl_core.cache import Memo
from netcl_core.errors import NetclError, TemplateError, coded, message
from netcl_core.market import market_module
from netcl_core.version import VERSION

# -- where templates lie; those of plugins are looked for when one is needed ---------------


@final
class Prefixes(dict[str, jinja2.BaseLoader]):
    """Loaders by prefix.

    Attributes:
        promised: What enters a prefix that is not there yet, once somebody looks it up.
    """

    def __init__(self, **loaders: jinja2.BaseLoader) -> None:
        super().__init__(loaders)
        self.promised: dict[str, Callable[[], None]] = {}

    def __missing__(self, prefix: str) -> jinja2.BaseLoader:
        enter = self.promised.get(prefix)
        if enter is not None:
            enter()  # which other threads wait for as well
        if prefix not in self:
            raise KeyError(prefix)
        return self[prefix]

    def found(self, prefix: str) -> jinja2.BaseLoader | None:
        """The loader of a prefix; None if there is none."""
        try:
            return self[prefix]
        except KeyError:
            return None

    def names(self) -> list[str]:
        """Every prefix that is there or promised, sorted."""
        return sorted({*self, *self.promised})


_prefixes: Final[Prefixes] = Prefixes(core=jinja2.FileSystemLoader(config.templates()))
#: The functions that a kernel may call without saying so: the macros that take a width.
_FUNCTIONS: Final = "core/kernels/functions.cl.j2"
_lock: Final = threading.RLock()
_texts: Final[Memo[Any, str]] = Memo(2048)
_edition = 0
#: Types of values that are equal only where they print alike, if their types are.
_PLAIN: Final = frozenset({bool, int, str, type(None)})


@final
class _Compiled(jinja2.BytecodeCache):
    """Templates as Jinja compiled them, kept on disk: most of what a first call would take.

    An entry is named for the template's text and for the versions of all that made it.
    """

    def __init__(self, environment: type) -> None:
        edition = getattr(environment, "edition", 0)
        self._makers = (sys.version, jinja2.__version__, VERSION, environment.__module__, edition)

    def load_bytecode(self, bucket: Bucket) -> None:
        entry = cache.read(self._name(bucket))
        if entry is not None:
            bucket.code = marshal.loads(entry)  # a whole entry of the user's own cache

    def dump_bytecode(self, bucket: Bucket) -> None:
        cache.write(self._name(bucket), marshal.dumps(bucket.code))

    def _name(self, bucket: Bucket) -> str:
        return cache.digest("template", *map(str, self._makers), bucket.key, bucket.checksum)


@final
class _Folder(jinja2.FileSystemLoader):
    """The templates of a folder, as something reads files."""

    def __init__(self, folder: Path, read: Callable[[Path], bytes]) -> None:
        super().__init__(folder)
        self._read = read

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """The text of a template, its path, and whether it is still so."""
        path = Path(self.searchpath[0], *split_template_path(template))
        if not path.is_file():
            raise jinja2.TemplateNotFound(template)
        changed = path.stat().st_mtime_ns
        return self._read(path).decode(), str(path), lambda: path.stat().st_mtime_ns == changed


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The one Jinja environment of the process: Jinja's own sandbox, or that of netcl-market.

    In the market's a rendering has a `budget` of steps and sizes: it has to end.
    """
    market = market_module("sandbox")
    kind = ImmutableSandboxedEnvironment if market is None else market.Sandbox
    return kind(
        loader=jinja2.PrefixLoader(_prefixes),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        bytecode_cache=_Compiled(kind),
    )


def add_prefix(
    prefix: str,
    folder: str | Path,
    owner: str = "",
    read: Callable[[Path], bytes] = Path.read_bytes,
) -> None:
    """Make `<prefix>/<file>` mean a file in `folder`; raises TemplateError if it is no folder.

    `owner` is the distribution that errors name; `read` gives the content of a file.
    """
    path = Path(folder)
    if not path.is_dir():
        raise TemplateError(
            message(f"templates of {prefix!r}", f"{path} is no folder", "a folder of templates")
        )
    with _lock:
        known = _prefixes.get(prefix) is not None
        _prefixes[prefix] = _Folder(path, read)
        own(prefix, owner)
        if known:  # what is new is in nothing that was rendered yet
            _forget()


def promise_prefixes(promised: Mapping[str, Callable[[], None]]) -> None:
    """Say of prefixes what adds them when somebody asks for one of their templates."""
    _prefixes.promised.update(promised)


def share_prefixes(shared: Mapping[str, tuple[str, ...]]) -> None:
    """Say of which prefixes nobody's templates can be found, and what claimants have instead."""
    sharers.update(shared)


def drop_prefix(prefix: str) -> None:
    """Forget the templates of a prefix, if there are any."""
    with _lock:
        _prefixes.promised.pop(prefix, None)
        if _prefixes.pop(prefix, None) is not None:
            _forget()


def _forget() -> None:
    """Drop what was made from templates before they changed."""
    global _edition
    environment().cache.clear()  # type: ignore[union-attr]  # an LRUCache unless size 0
    _texts.clear()
    _edition += 1


def edition() -> int:
    """How often the templates have changed: part of the key of whatever was made from them."""
    return _edition


def has_prefix(prefix: str) -> bool:
    """Whether templates of this prefix can be found."""
    return _prefixes.found(prefix) is not None


def folder_of(prefix: str) -> Path | None:
    """The folder of a prefix's templates; None if there is none of that name."""
    loader = _prefixes.found(prefix)
    return Path(loader.searchpath[0]) if isinstance(loader, jinja2.FileSystemLoader) else None


@contextmanager
def _told(name: str) -> Iterator[None]:
    """A block in which a template is read or rendered; whatever it raises becomes ours."""
    try:
        with getattr(environment(), "budget", nullcontext()):
            yield
    except NetclError:
        raise
    except Exception as error:  # a template may divide by zero, or add a text to a number
        raise failed(name, error, _path_of(name)) from error


def get_template(name: str) -> jinja2.Template:
    """A template by `<prefix>/<file>`; raises TemplateError with the known prefixes."""
    with _told(name):
        try:
            return environment().get_template(name)
        except jinja2.TemplateNotFound as error:
            raise not_found(name, error, _prefixes.names()) from error


def _path_of(name: str) -> Path:
    prefix, _, file = name.partition("/")
    return (folder_of(prefix) or Path()) / file


def get_module(name: str) -> Any:
    """The macros and variables of a template; raises TemplateError as `render` does."""
    template = get_template(name)
    with _told(name):
        return template.make_module()


def render(name: str, **context: Any) -> str:
    """Render a template; raises TemplateError that names template, line and variable.

    Equal requests get the same text, rendered once, until the templates of a prefix change.
    """
    key = key_of(name, context)
    if key is None:
        return _rendered(name, context)
    return _texts.get(key) or _texts.put(key, _rendered(name, context))


def program(name: str, **context: Any) -> str:
    """A whole program: a template rendered, after the functions of the core that it calls."""
    text = render(name, **context)
    functions = get_template(_FUNCTIONS).module
    called = sorted(set(_calls().findall(text)))
    return "".join([getattr(functions, of)(int(width)) for of, width in called]) + text


@lru_cache(maxsize=1)
def _calls() -> re.Pattern[str]:
    """What finds calls of the core's functions: the name, and the width of the vectors."""
    macros = vars(get_template(_FUNCTIONS).module).values()
    names = [macro.name for macro in macros if getattr(macro, "arguments", None) == ("width",)]
    return re.compile(rf"\b({'|'.join(names)})_(\d+)\(")


def key_of(name: str, context: Mapping[str, Any]) -> Any:
    """What is equal for templates and contexts that render alike; None: a value may change."""
    try:
        values = [value if type(value) in _PLAIN else _kept(value) for value in context.values()]
    except TypeError:
        return None
    return name, *context, *map(type, context.values()), *values


def _kept(value: Any) -> Any:
    """A value as part of a key: equal only if it prints alike, which 1, 1.0 and True do not."""
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:  # 0.0 == -0.0
        return kind, repr(value)
    if isinstance(value, (tuple, list)):
        return kind, tuple([_kept(item) for item in value])
    if isinstance(value, Mapping):
        return kind, tuple([(_kept(item), _kept(of)) for item, of in value.items()])
    raise TypeError


def _rendered(name: str, context: Mapping[str, Any]) -> str:
    template = get_template(name)
    with _told(name):
        return template.render(**context)


def rendered_macro(name: str, macro: Callable[..., Any]) -> Callable[..., str]:
    """A macro of a template as a function whose errors are those of `render`."""

    def call(*args: Any, **values: Any) -> str:
        with _told(name):
            try:
                return str(macro(*args, **values))
            except Exception:  # Jinja puts a template's own lines into the traceback of `render`
                environment().handle_exception()

    return call


# -- errors: whose a template is, where in it, and what is to be done ----------------------

#: The distributions that the prefixes of plugins belong to.
_owners: Final[dict[str, str]] = {}
#: Prefixes that several have a claim to, and nobody has: what each of them has instead.
sharers: Final[dict[str, tuple[str, ...]]] = {}


def own(prefix: str, distribution: str) -> None:
    """Note whose templates a prefix leads to."""
    _owners[prefix] = distribution


def _who(name: str) -> str:
    """A template as errors name it: with the distribution that it belongs to."""
    owner = _owners.get(name.partition("/")[0])
    return f"template {name!r}" + (f" of {owner}" if owner else "")


def not_found(name: str, error: jinja2.TemplateNotFound, prefixes: Iterable[str]) -> TemplateError:
    """The error for a template that is not there, or whose prefix several plugins claim."""
    prefix, _, file = (error.name or name).partition("/")
    folder = folder_of(prefix)
    names = sorted(path.name for path in folder.glob("*.j2")) if folder else sorted(prefixes)
    if prefix in sharers and folder is None:
        text = message(
            f"template {name!r}",
            f"{' and '.join(sharers[prefix])} both claim the prefix {prefix!r}",
            "one plugin of that name",
            f"Disable or uninstall one of them. For their authors: {sharers[prefix][0]}/{file} is "
            "found in any case",
        )
        return coded("NP113", TemplateError(text))
    text = message(
        f"template {name!r}",
        f"{error.name} was not found",
        f"one of {'' if folder else 'the prefixes '}{', '.join(names)}",
        "" if folder else "A plugin's prefix is the name of its entry point",
    )
    return coded("NP309", TemplateError(text))


def failed(name: str, error: BaseException, path: Path) -> TemplateError:
    """The error of a template that could not be read or rendered, with the line."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        given = f"line {error.lineno}: {error.message}"
        return TemplateError(message(_who(name), given, "valid Jinja"))
    place = _place(error, path)
    if isinstance(error, SecurityError):
        text = message(_who(name), f"{place}{error}", "a template that keeps to what it is given")
        return coded("NP316", TemplateError(text))
    endless = isinstance(error, (RecursionError, OverflowError, MemoryError))
    if endless or getattr(error, "code", "") == "NP317":
        expected = "a template that ends, with a kernel's size"
        text = message(_who(name), f"{place}{error}", expected)
        return coded("NP317", TemplateError(text))
    if not isinstance(error, jinja2.TemplateError):
        given = f"{place}{type(error).__name__}: {error}"
        return TemplateError(message(_who(name), given, "a template that renders"))
    return TemplateError(message(_who(name), f"{place}{error}", "every variable defined"))


def _place(error: BaseException, path: Path) -> str:
    """Where a template failed: its own line, and that of another one if it was in there."""
    line = getattr(error, "line", None)  # of what is refused where a template is read
    if line is not None:
        read = Path(getattr(error, "path", ""))
        return f"line {line}{'' if read == path else f' of {read.name}'}: "
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.endswith(".j2")]  # as Jinja names them
    own = [frame for frame in inside if Path(frame.filename) == path]
    where = f"line {own[-1].lineno}: " if own else ""
    if inside and inside[-1] not in own:
        where += f"line {inside[-1].lineno} of {Path(inside[-1].filename).name}: "
    return where
