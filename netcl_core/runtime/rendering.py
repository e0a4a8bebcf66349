"""Templates: the Jinja environment, one prefix per plugin, rendering and digests.

`core/...` is the core's own folder, `<prefix>/...` a plugin's. Undefined names
are errors, so a misspelt variable never becomes an empty kernel.
"""

from __future__ import annotations

import hashlib
import threading
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import jinja2

from netcl_core import config
from netcl_core.errors import TemplateError, coded, message
from netcl_core.runtime.memo import Memo

_prefixes: Final[dict[str, jinja2.BaseLoader]] = {}
_lock: Final = threading.RLock()
_texts: Final[Memo[Any, str]] = Memo(2048)
_edition = 0
#: Types of values that are equal only where they print alike, if their types are.
_PLAIN: Final = frozenset({bool, int, str, type(None)})


_prefixes["core"] = jinja2.FileSystemLoader(config.templates())


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The one Jinja environment of the process."""
    return jinja2.Environment(
        loader=jinja2.PrefixLoader(_prefixes),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def add_prefix(prefix: str, folder: str | Path) -> None:
    """Make `<prefix>/<file>` mean a file in `folder`; raises TemplateError if it is no folder."""
    path = Path(folder)
    if not path.is_dir():
        raise TemplateError(
            message(f"templates of {prefix!r}", f"{path} is no folder", "a folder of templates")
        )
    with _lock:
        _prefixes[prefix] = jinja2.FileSystemLoader(path)
        _forget()


def drop_prefix(prefix: str) -> None:
    """Forget the templates of a prefix, if there are any."""
    with _lock:
        _prefixes.pop(prefix, None)
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
    return prefix in _prefixes


def get_template(name: str) -> jinja2.Template:
    """A template by `<prefix>/<file>`; raises TemplateError with the known prefixes."""
    try:
        return environment().get_template(name)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(
            message(f"template {name!r}", f"line {error.lineno}: {error.message}", "valid Jinja")
        ) from error
    except jinja2.TemplateNotFound as error:
        text = message(
            f"template {name!r}",
            f"{error.name} was not found",
            f"a file below one of the prefixes {', '.join(sorted(_prefixes))}",
            "A plugin's prefix is the name of its entry point",
        )
        raise coded("NP309", TemplateError(text)) from error


def render(name: str, **context: Any) -> str:
    """Render a template; raises TemplateError that names template, line and variable.

    Equal requests get the same text, rendered once, until the templates of a prefix change.
    """
    key = key_of(name, context)
    if key is None:
        return _rendered(name, context)
    return _texts.get(key) or _texts.put(key, _rendered(name, context))


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
        return kind, tuple([_kept(each) for each in value])
    if isinstance(value, Mapping):
        return kind, tuple([(_kept(each), _kept(of)) for each, of in value.items()])
    raise TypeError


def _rendered(name: str, context: Mapping[str, Any]) -> str:
    template = get_template(name)
    try:
        return template.render(**context)
    except jinja2.TemplateError as error:
        raise _failed(name, error) from error


def rendered_macro(name: str, macro: Callable[..., Any]) -> Callable[..., str]:
    """A macro of a template as a function whose errors are those of `render`."""

    def call(*args: Any, **values: Any) -> str:
        try:
            return str(macro(*args, **values))
        except jinja2.TemplateError as error:
            raise _failed(name, error) from error

    return call


def _failed(name: str, error: jinja2.TemplateError) -> TemplateError:
    """The error of a template that was being rendered, with its line."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [each for each in frames if each.filename.endswith(".j2")]  # as Jinja names them
    where = f"line {inside[-1].lineno}: " if inside else ""
    return TemplateError(message(f"template {name!r}", f"{where}{error}", "every variable defined"))


def digest(*texts: str) -> str:
    """The sha256 of some texts, as hexadecimal digits."""
    sha = hashlib.sha256()
    for text in texts:
        sha.update(text.encode("utf-8"))
        sha.update(b"\0")
    return sha.hexdigest()
