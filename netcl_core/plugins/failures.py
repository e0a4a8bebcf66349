"""Everything that can be wrong with a plugin: a code for each kind, told from what it raises.

docs/plugin-errors.md says what each kind means and what to do; netcl-market has these texts.
"""

from __future__ import annotations

from typing import Final

from netcl_core.errors import PluginError, PrimitiveError, TemplateError, coded, plain

INCOMPATIBLE: Final = "incompatible"
QUARANTINED: Final = "quarantined"
PAGE: Final = "docs/plugin-errors.md"
#: The failure of a plugin that is data, where nothing reads such.
UNREAD: Final = "NP106"


_QUARANTINING: Final = (
    "NP114 NP201 NP202 NP203 NP204 NP205 NP206 NP207 NP301 NP302 NP303 NP304 NP305 NP306 NP307 "
    "NP308 NP309 NP310 NP311 NP312 NP313 NP314 NP315 NP316 NP317 NP318 NP319"
)
_HARMLESS: Final = "NP320 NP401 NP402 NP404 NP405 NP406 NP511 NP513"
#: What each kind of failure makes of the plugin, empty if nothing. A market adds its own.
STATES: Final[dict[str, str]] = {
    UNREAD: INCOMPATIBLE,
    **dict.fromkeys(_QUARANTINING.split(), QUARANTINED),
    **dict.fromkeys(_HARMLESS.split(), ""),
}
#: What to do about each kind; a market has these texts.
REMEDIES: Final[dict[str, str]] = {}


def code_of(error: BaseException, importing: bool, module: str) -> str:
    """The code of an exception that a plugin raised.

    `importing` tells the import of `module` from the registration that follows it.
    """
    try:
        return _code_of(error, importing, module)
    except BaseException:  # its own attributes raise
        return "NP207" if importing else "NP311"


def _code_of(error: BaseException, importing: bool, module: str) -> str:
    code: str = getattr(error, "code", "")
    if isinstance(code, str) and code in STATES:
        return code
    if isinstance(error, SystemExit):
        return "NP206"
    if isinstance(error, TemplateError):
        return "NP310"
    if isinstance(error, PrimitiveError):
        return "NP308"
    if isinstance(error, ModuleNotFoundError) and error.name:
        ours = importing and f"{module}.".startswith(f"{error.name}.")
        return "NP201" if ours else "NP202"
    if isinstance(error, ImportError):
        return "NP203"
    if isinstance(error, SyntaxError):
        return "NP204"
    return "NP207" if importing else "NP311"


def said(error: BaseException) -> str:
    """What an exception says of itself, whatever its own methods do."""
    name = type(error).__name__
    try:
        own = issubclass(type(error), PluginError)  # it may say that it is of another class
        return plain(str(error) if own else f"{name}: {error}")
    except BaseException as another:  # its `__str__` raised: a plugin may do anything
        return f"{name}, whose text raises {type(another).__name__}"


def remedy_of(code: str) -> str:
    """What to do about a kind of failure."""
    return REMEDIES.get(code) or f"See {PAGE}#{code.lower()}."


def described(code: str, reason: str) -> str:
    """The reason with the code before it, and the page that explains it."""
    return f"{code}: {reason} (see {PAGE}#{code.lower()})"


def plugin_error(code: str, text: str) -> PluginError:
    """A PluginError of one kind."""
    return coded(code, PluginError(text))
