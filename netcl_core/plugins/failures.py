"""Everything that can be wrong with a plugin: a code, its meaning and the remedy for each kind.

A market adds its own kinds. The table of docs/plugin-errors.md is written from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from netcl_core.errors import PluginError, PrimitiveError, TemplateError, coded, plain

INCOMPATIBLE: Final = "incompatible"
QUARANTINED: Final = "quarantined"
PAGE: Final = "docs/plugin-errors.md"
#: The failure of a plugin that is data, where nothing reads such.
UNREAD: Final = "NP106"


@final
@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind of failure; `state` is what it makes of the plugin, empty if nothing."""

    code: str
    state: str
    meaning: str
    remedy: str


def kinds_of(state: str, **rows: tuple[str, str]) -> dict[str, FailureKind]:
    """Kinds that make the same of a plugin: the meaning and the remedy of each code."""
    return {code: FailureKind(code, state, *texts) for code, texts in rows.items()}


FAILURES: Final[dict[str, FailureKind]] = {
    **kinds_of(
        INCOMPATIBLE,
        NP106=(
            "The plugin is data, and netcl-market or the plugin that reads data is not installed, "
            "is switched off or does not work.",
            "Install, name in the settings or repair the reader that the message names. For its "
            "author: list the reader in `dependencies`.",
        ),
    ),
    **kinds_of(
        QUARANTINED,
        NP114=(
            "The plugin's entry point is named like the core's own templates, which is reserved.",
            "For its author: rename the entry point.",
        ),
        NP201=(
            "The module named by the plugin's entry point does not exist.",
            "Reinstall the plugin. For its author: correct the entry point or the contents of the "
            "package.",
        ),
        NP202=(
            "The plugin imports a module that is not installed.",
            "Install the missing module. For the plugin's author: declare it in `dependencies`.",
        ),
        NP203=(
            "The plugin imports a name that a module does not define.",
            "Upgrade the plugin and the module named in the message. For its author: state the "
            "required versions.",
        ),
        NP204=(
            "The plugin's source is not valid for this version of Python.",
            "Install a release that supports this Python. For its author: set `requires-python`.",
        ),
        NP205=(
            "The plugin's module does not define the object named by the entry point.",
            "Upgrade the plugin. For its author: correct the entry point.",
        ),
        NP206=(
            "The plugin tried to exit the program while it was being imported or registered.",
            "Report this to its author: a plugin should raise an exception, never exit.",
        ),
        NP207=(
            "The plugin raised an exception while it was being imported.",
            "See `netcl plugins info NAME --traceback`, then upgrade or repair the plugin.",
        ),
        NP301=(
            "A function of the plugin is marked as a hook, or named like one, but netcl has no "
            "such hook.",
            "For its author: the message suggests which hook may be meant.",
        ),
        NP302=(
            "A function is named after a hook but is not marked with netcl's `@hookimpl`.",
            "For its author: put `@hookimpl` from `netcl_core` above it.",
        ),
        NP303=(
            "The plugin implements no hooks.",
            "For its author: mark at least one method with `@hookimpl` from `netcl_core`.",
        ),
        NP304=(
            "A hook has parameters that netcl does not pass.",
            "For its author: use the parameters listed in docs/hooks.md.",
        ),
        NP305=(
            "The plugin registers an object of the wrong type.",
            "For its author: the message names the expected type.",
        ),
        NP306=(
            "The plugin registers a name that is not a valid identifier.",
            "For its author: choose another name.",
        ),
        NP307=(
            "The plugin registers the same name twice.",
            "For its author: register each name once.",
        ),
        NP308=(
            "A record is wrong: an op's C expression, arity or attributes, a space of settings, "
            "what a pattern matches, or a policy's rules.",
            "For its author: the message shows what is wrong.",
        ),
        NP309=(
            "The plugin refers to a template that does not exist.",
            "Reinstall the plugin. For its author: ship the folder `templates` in the package.",
        ),
        NP310=(
            "One of the plugin's templates cannot be read or rendered.",
            "For its author: the message gives the template and the line.",
        ),
        NP311=(
            "One of the plugin's hooks raised an exception.",
            "See `netcl plugins info NAME --traceback`, then upgrade or repair the plugin.",
        ),
        NP312=(
            "The plugin registers an op or a namespace under a name that is reserved for the core.",
            "For its author: choose another name.",
        ),
        NP313=(
            "The plugin registers an implementation of its own primitive, which could never be "
            "used.",
            "For its author: register an operator of that name, or drop the implementation.",
        ),
        NP314=(
            "A hook is marked as a wrapper, `tryfirst` or `trylast`, or is implemented twice.",
            "For its author: mark exactly one plain function per hook with `@hookimpl`.",
        ),
        NP315=(
            "The plugin registers something with a priority that is no integer.",
            "For its author: give a whole number, such as 1.",
        ),
        NP316=(
            "A template reaches for what belongs to Python, such as `__globals__` or a text's "
            "`format`. Templates are rendered in a sandbox.",
            "Uninstall the plugin. For its author: a template computes with what it is given; the "
            "message gives the line.",
        ),
        NP317=(
            "A template takes more steps, or makes more text, than any kernel needs: a loop or a "
            "macro that calls itself does not end.",
            "Uninstall the plugin. For its author: the message gives the line.",
        ),
        NP318=(
            "The plugin is data, and a definition in its manifest is wrong, or something in it "
            "needs code.",
            "Upgrade the plugin. For its author: the message gives the op and the key.",
        ),
        NP319=(
            "The plugin brings something that its manifest (on the short road: the name of its "
            "entry point) does not say.",
            "Upgrade the plugin. For its author: list it in the manifest (`netcl plugins check` "
            "shows the row), or name the entry point as the op.",
        ),
    ),
    **kinds_of(
        "",
        NP320=(
            "The plugin is data, and one of its kernels uses what is not on the short list of "
            "OpenCL C: it declares a function without a body, calls one of nobody's, has a "
            "directive or a macro, or makes a pointer of a number. On a CPU it may use pointers "
            "only where their bounds can be checked.",
            "Uninstall the plugin. For its author: the message gives the line and the word.",
        ),
        NP401=(
            "Two plugins offer the same name with equal priority.",
            "Choose one with `nc.prefer` (ops) or `NETCL_RANK`, or uninstall the other.",
        ),
        NP402=(
            "A choice passed to `nc.prefer` is not offered by any active plugin.",
            "`netcl plugins why OP` shows who offers an op.",
        ),
        NP404=(
            "`NETCL_PLUGINS_STRICT` is set and a plugin cannot be loaded.",
            "Fix what the message lists, or unset the variable.",
        ),
        NP405=(
            "A plugin implements an op that is a primitive, so the implementation is never used.",
            "Uninstall one of the two. For the author: implement an operator instead.",
        ),
        NP406=(
            "A training pattern's planner or matcher raised an exception, or gave something else "
            "than the value of the group. The function runs without it.",
            "Upgrade or uninstall the plugin named in the message. For its author: `netcl plugins "
            "check` tries the pattern on its cases.",
        ),
        NP513=(
            "The lock file that the program requires (`nc.require_lock`) is not there, has another "
            "digest, or is required too late.",
            "Restore the file, or give the digest of the one that you have read. Call the function "
            "before the first op.",
        ),
        NP511=(
            "A lock file is to be held, and nothing here can verify it.",
            "Install it with: pip install netcl-market. Or unset `lock-strict` and "
            "`plugins-strict`.",
        ),
    ),
}


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
    if isinstance(code, str) and code in FAILURES:
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


def described(code: str, reason: str) -> str:
    """The reason with the code before it, and the page that explains it."""
    return f"{code}: {reason} (see {PAGE}#{code.lower()})"


def plugin_error(code: str, text: str) -> PluginError:
    """A PluginError of one kind."""
    return coded(code, PluginError(text))
