"""Everything that the static check can find: a code, the check, its meaning and the remedy.

The table of docs/check-findings.md is written from this one and the kit's. What keeps a plugin from
loading has codes of its own, in `netcl_market.failures`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

from netcl_market.failures import FAILURES

from netcl_plugin_kit.testing.findings import table_of_kinds
from netcl_plugin_kit.testing.records import Outcome

PAGE: Final = "docs/check-findings.md"
#: What the static level checks, in the order in which it does.
STATIC: Final = (
    "wheel",
    "metadata",
    "licence",
    "manifest",
    "load",
    "registration",
    "templates",
    "derivative",
)


#: The kinds of findings of the static check and of the process that checks.
KINDS: Final = table_of_kinds(
    (
        "NC101",
        "wheel",
        "It has no entry point in `netcl_core.plugins` or `netcl_core.primitives`.",
        "Declare the plugin in `pyproject.toml`, as docs/plugins.md shows.",
    ),
    (
        "NC102",
        "wheel",
        "Its RECORD does not list what it holds, or lists what is not there.",
        "Build the wheel with a build backend, and do not change it afterwards.",
    ),
    (
        "NC103",
        "wheel",
        "A file of the project, of the manifest or of a template is not in the wheel.",
        "Tell the build backend to include it; hatchling takes all files of a package.",
    ),
    (
        "NC104",
        "wheel",
        "An entry point names a module that the wheel does not hold.",
        "Correct the entry point, or add the module to the wheel.",
    ),
    (
        "NC105",
        "wheel",
        "It holds tests.",
        "Keep tests beside the package; cases for the kit may stand in a module of the package.",
    ),
    (
        "NC106",
        "wheel",
        "A path in it is absolute or climbs out of it.",
        "Build the wheel with a build backend.",
    ),
    (
        "NC107",
        "wheel",
        "It holds compiled Python.",
        "Exclude `__pycache__` and `*.pyc` from the wheel.",
    ),
    (
        "NC108",
        "wheel",
        "It installs something at the top level that no entry point names.",
        "Install one package, named after the distribution, and nothing beside it.",
    ),
    (
        "NC109",
        "wheel",
        "The project cannot be built into a wheel.",
        "Repair `pyproject.toml`; the message shows the end of what the build said.",
    ),
    (
        "NC110",
        "wheel",
        "It is data, without an entry point for code, and yet holds code.",
        "Leave Python, libraries, scripts and `.pth` files out of the wheel, or give it an entry "
        "point in `netcl_core.plugins`.",
    ),
    (
        "NC201",
        "licence",
        "Its metadata declare no licence, or not as an SPDX expression.",
        'Write `license = "MIT"`, or another SPDX expression, into `[project]`.',
    ),
    (
        "NC202",
        "licence",
        "The licence of the manifest is not that of the metadata.",
        "Write the same SPDX expression into both.",
    ),
    (
        "NC203",
        "metadata",
        "Its metadata do not say which Python it needs.",
        'Write `requires-python = ">=3.11"` into `[project]`.',
    ),
    (
        "NC204",
        "metadata",
        "It does not require netcl-core with a lower and an upper bound.",
        'Write `dependencies = ["netcl-core>=0.1,<0.2"]`: another minor version may break it.',
    ),
    (
        "NC301",
        "manifest",
        "A plugin with hooks has no manifest.",
        "Ship `netcl_plugin.toml`, with an entry point in `netcl_core.manifest`.",
    ),
    (
        "NC302",
        "manifest",
        "The manifest does not fit its JSON Schema: an unknown key, or a value that it forbids.",
        "Correct the key that the message names; `manifest_schema.json` in "
        "`netcl_market` has them all.",
    ),
    (
        "NC303",
        "manifest",
        "A manifest's name, or that of its entry point, is not the name of a plugin.",
        "Give the plugin's entry point, the manifest's and `[plugin] name` one name.",
    ),
    (
        "NC304",
        "registration",
        "It registers something that the manifest does not list.",
        "Add the row to the manifest.",
    ),
    (
        "NC305",
        "registration",
        "The manifest lists something that it does not register.",
        "Remove the row from the manifest, or register what it promises.",
    ),
    (
        "NC306",
        "registration",
        "A row of the manifest says something else than the registration.",
        "Correct the row.",
    ),
    (
        "NC307",
        "registration",
        "It has a hook that is younger than the manifest's `api`: older cores cannot load it.",
        "Write the hook API of docs/hooks.md in which the hook came into `[plugin] api`.",
    ),
    (
        "NC308",
        "registration",
        "It brings an implementation of an op that nobody provides, or that is a primitive.",
        "Install the plugin that provides the operator beside it, or correct the op's name.",
    ),
    (
        "NC401",
        "templates",
        "A template is no valid Jinja, or uses a name that is not defined.",
        "Correct the line that the message names.",
    ),
    (
        "NC402",
        "templates",
        "An expression of an op is no C expression over its inputs and attributes.",
        "Correct the expression; docs/plugins.md says what it may hold.",
    ),
    (
        "NC403",
        "templates",
        "A macro has an argument that nothing reads.",
        "Use the argument, or remove it.",
    ),
    (
        "NC404",
        "templates",
        "`backward` has another number of expressions than the op has inputs.",
        "Give one expression per input, separated by `;`, and `none` where there is no gradient.",
    ),
    (
        "NC405",
        "templates",
        "An op's kernel cannot be rendered for a dtype that the op takes.",
        "Correct the template, or take the dtype out of what the op accepts.",
    ),
    (
        "NC406",
        "templates",
        "A template reaches for what belongs to Python, or does not end: it is rendered in a "
        "sandbox.",
        "Compute with what the template is given, and bound what it repeats.",
    ),
    (
        "NC407",
        "templates",
        "A kernel prints, or includes a file.",
        "Take it out: it shows what nobody asked for, or builds on one machine alone.",
    ),
    (
        "NC501",
        "derivative",
        "A `backward` is not the derivative of its `forward`.",
        "Correct the expression; a case with `skip={'derivative': 'why'}` excuses a wanted one.",
    ),
    (
        "NC502",
        "derivative",
        "A `backward` cannot be compared with the derivative of its `forward`.",
        "Excuse it in a case with `skip={'derivative': 'why'}`; finite differences remain.",
    ),
    (
        "NC503",
        "derivative",
        "A case expects this check to fail, and it passes.",
        "Remove `derivative` from the case's `xfail=`.",
    ),
    (
        "NC601",
        "load",
        "It ended the interpreter during a check.",
        "The message says what was checked last; run that alone in a debugger.",
    ),
    (
        "NC602",
        "load",
        "A check did not finish, and nothing was heard of it any more.",
        "The message says what was checked last; look for an endless loop in it.",
    ),
    (
        "NC603",
        "load",
        "A check raised what it does not expect; what was found before stands.",
        "The traceback shows whose fault it is; report one that lies in netcl_core.",
    ),
)

#: What is worth a note: it fails nothing.
NOTES: Final = table_of_kinds(
    (
        "NC205",
        "metadata",
        "Something is as `netcl plugins new` wrote it. This is a note, and fails nothing.",
        "Write your own before you publish it.",
    ),
)


@final
@dataclass(frozen=True, slots=True)
class CheckFinding:
    """Something wrong; `remedy` is what to do where that is more than its kind's remedy."""

    code: str
    text: str
    op: str = ""
    dtype: str = ""
    remedy: str = ""

    def outcome(self, check: str = "") -> Outcome:
        """The failed outcome that says it, by default of the check that its kind belongs to."""
        kind = KINDS[self.code]
        return Outcome(
            check or kind.check,
            "failed",
            self.op,
            "",
            self.dtype,
            f"{self.code}: {self.text}",
            self.remedy or kind.remedy,
        )


def judged(
    check: str, findings: Iterable[CheckFinding], op: str = "", dtype: str = ""
) -> list[Outcome]:
    """The outcomes of one check: its findings, or that it passed."""
    failed = [finding.outcome() for finding in findings]
    return failed or [Outcome(check, "passed", op, "", dtype)]


def not_loading(who: str, code: str, reason: str) -> Outcome:
    """The outcome of a plugin that does not load, by a code of docs/plugin-errors.md."""
    text = f"{code}: {who}: {reason}"
    return Outcome("load", "failed", reason=text, remedy=FAILURES[code].remedy)
