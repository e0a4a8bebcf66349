"""The family of netcl's errors.

Every message answers four questions: who raised it, what was given, what was
expected, and what to do about it. `message` assembles the four parts, so that
all errors of the project read alike.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

_Error = TypeVar("_Error", bound="NetclError")


def message(who: str, given: str, expected: str = "", remedy: str = "") -> str:
    """Join the four parts of an error text into one readable line."""
    text = f"{who}: {given.rstrip('.')}"
    if expected:
        text += f"; expected {expected.rstrip('.')}"
    if remedy:
        text += f". {remedy.rstrip('.')}"
    return text if text.endswith("?") else text + "."


def first_line(error: BaseException) -> str:
    """An exception as one line: its type and the telling part of its text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    text = " | ".join(dict.fromkeys(lines[:1] + telling[:1]))
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


#: Whose frames tell a plugin's author nothing.
_OWN = ("netcl_core", "importlib", "importlib_metadata", "pluggy")


class NetclError(Exception):
    """Base of every error that netcl raises on purpose.

    `code` is that of docs/plugin-errors.md where a plugin is at fault, else empty.
    """

    code: str = ""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message first, and how it came to it below."""
        lines = [f"{type(self).__name__}: {self}", *getattr(self, "__notes__", ())]
        if self.__traceback__ is not None:
            lines += ["", *"".join(traceback.format_exception(self)).splitlines()]
        return lines


def coded(code: str, error: _Error) -> _Error:
    """The error with the code of its kind, such as `NP301`."""
    error.code = code
    return error


def plain(text: str) -> str:
    """A text of somebody else's for a terminal: control characters are shown, not sent.

    >>> plain("\\x1b[31mred\\x1b[0m")
    '\\\\x1b[31mred\\\\x1b[0m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def missing_name(who: str, name: str, known: Iterable[str]) -> MissingNameError:
    """The error for a name that `who`, a namespace such as `netcl_core.nn`, does not have."""
    close = get_close_matches(name, known, n=2)
    remedy = f"Did you mean {' or '.join(close)}?" if close else f"dir({who}) lists its names"
    return MissingNameError(message(who, f"it has no {name!r}", "", remedy))


def told_absent(who: str, name: str, remedy: str) -> MissingNameError:
    """The error for a name of PyTorch's that is not there, with what to write instead."""
    error = MissingNameError(message(who, f"it has no {name!r}", "", remedy))
    error.told = True
    return error


def raised_at(error: BaseException) -> str:
    """`package/module.py:12, in function`: the innermost place that is not netcl's own.

    Empty where all of it is.
    """
    place, trace = "", error.__traceback__
    while trace is not None:
        code, name = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _OWN:
            file = "/".join(code.co_filename.replace("\\", "/").split("/")[-2:])
            place = f"{file}:{trace.tb_lineno}, in {code.co_name}"
        trace = trace.tb_next
    return place


class ConfigError(NetclError, ValueError):
    """A NETCL_* variable or a [tool.netcl] key has a value that cannot be used."""


class DeviceError(NetclError, RuntimeError):
    """A device does not exist, cannot be used, or a build or launch on it failed."""


class BuildError(DeviceError):
    """An OpenCL program did not build; the message shows the numbered source and the log."""


class UnfitError(DeviceError):
    """None of an op's implementations, or none of those asked for, takes what is to be computed.

    `refusals` are (distribution, label, reason) of each.
    """

    refusals: Sequence[tuple[str, str, str]] = ()


class KernelFindingError(AssertionError):
    """A check has seen a kernel do what docs/check-findings.md has a code for."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class DtypeError(NetclError, TypeError):
    """A dtype that an op or a device cannot take."""


class ShapeError(NetclError, ValueError, RuntimeError):
    """Shapes that do not fit each other or the op."""


class ArgumentError(NetclError, TypeError):
    """Wrong number or kind of arguments of an op."""


class AttributeValueError(NetclError, ValueError):
    """An op's attribute (an axis, a slope, a mode) has a value that cannot be used."""


class GradientError(NetclError, RuntimeError):
    """A gradient cannot be computed: no graph, wrong number of gradients, wrong shape."""


class MutationError(GradientError):
    """A tensor that backward needs was changed in place after the forward pass."""


class AnomalyError(GradientError):
    """A gradient is NaN or infinite, or contradicts a finite difference."""


class FusionError(NetclError, RuntimeError):
    """`jit_compile(strict=True)` met something that it cannot fuse."""


class ReplayError(NetclError, RuntimeError):
    """Something cannot be captured, or a captured graph cannot be replayed so."""


class PrimitiveError(NetclError, ValueError):
    """A primitive's record or one of its C expressions is wrong."""


class TemplateError(NetclError, RuntimeError):
    """A Jinja template is missing or failed to render."""


class RegistrationError(NetclError, ValueError):
    """A record cannot be entered into the registry."""


class PluginError(NetclError, RuntimeError):
    """A plugin could not be found, imported or registered."""


class CheckpointError(NetclError, RuntimeError):
    """A file of tensors cannot be read, or its state does not fit where it is to be loaded."""


class RecordError(NetclError, ValueError):
    """A JSON record of a check or of a matrix cell cannot be read."""


class CatalogueError(NetclError, ValueError):
    """A catalogue of plugins cannot be read."""


class TargetError(NetclError, ValueError):
    """What a command was to look at is no installed plugin, no project and no wheel."""


class MissingExtraError(NetclError, ImportError):
    """A tool that is installed with an extra, or beside netcl, is missing."""


class AmbiguousOpError(NetclError, LookupError):
    """Two plugins provide an op with equal priority; nobody is picked by chance."""


class MissingOpError(NetclError, AttributeError):
    """No installed plugin provides this op.

    `told`: the text says what to write instead.
    """

    told: bool = False


class MissingNameError(NetclError, AttributeError):
    """A module or a tensor has nothing of this name, or no installed plugin brings it.

    `told`: the text says what to write instead.
    """

    told: bool = False


class MissingNamespaceError(NetclError, ImportError):
    """No installed plugin provides this namespace, or what is imported from it is not there."""


class FusionSkipped(UserWarning):
    """A compiled function runs, but not everything in it could be fused."""


class PluginWarning(UserWarning):
    """A plugin could not be loaded; everything else works.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", nc.plugins.PluginWarning)  # broken plugins raise now
    ...     _ = nc.plugins.list()
    """


class SlowWarning(UserWarning):
    """Everything works, and much slower than it could: no OpenCL device, or no cache folder."""


class NetclDeprecationWarning(DeprecationWarning):
    """Something that plugins use goes away: at least two minor versions later."""
