"""Plugins that load and yet have a fault, one for each kind of finding of the static check.

The examples of docs/check-findings.md are these: each is a sound plugin with one change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distributions import write_wheel

NAME = "netcl-plugin-sound"
PACKAGE = "netcl_plugin_sound"
PLUGIN = f"{PACKAGE}/__init__.py"
MANIFEST = f"{PACKAGE}/netcl_plugin.toml"
TEMPLATE = f"{PACKAGE}/templates/sound.cl.j2"
REGISTER = """\
from netcl_core import hookimpl
from netcl_core.autograd import AutogradPrimitive


class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        registry.add_template("sound.cl.j2")
"""
END = "\n\nplugin = Plugin()\n"
HEAD = """\
schema = 1

[plugin]
name = "sound"
api = [1, 1]
summary = "A square"
license = "MIT"
"""
ROW = """
[[provides]]
name = "sound"
kind = "primitive"
dtypes = ["float16", "float32", "float64"]
differentiable = true
elementwise = true
priority = 0
templates = ["sound/sound.cl.j2"]
"""
SQUARE = """\
{% set attrs = {"scale": 1.0} %}
{% macro forward(x, scale) %}scale * x * x{% endmacro %}
{% macro backward(x, scale, grad, out) %}2 * scale * x * grad{% endmacro %}
"""
WORDS = """\
{% set attrs = {"kind": "one"} %}
{% set choices = {"kind": ["one", "two"]} %}
"""
FILES = {PLUGIN: REGISTER + END, MANIFEST: HEAD + ROW, TEMPLATE: SQUARE}
POINTS = {
    "netcl_core.plugins": {"sound": f"{PACKAGE}:plugin"},
    "netcl_core.manifest": {"sound": f"{PACKAGE}:netcl_plugin.toml"},
}
HEADERS = [
    "License-Expression: MIT",
    "License-File: LICENSE",
    "Requires-Python: >=3.11",
    "Requires-Dist: netcl-core>=0.1,<0.2",
]


@dataclass(frozen=True)
class Faulty:
    """One fault: its code, what is wrong, what the finding says, and the change that makes it.

    `changes` are texts of files, None for one that is left out. `op` is the op that the
    finding names, `also` the codes of what follows from the same fault.
    """

    code: str
    what: str
    says: str
    changes: Mapping[str, str | None] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, str]] | None = None
    headers: Sequence[str] | None = None
    unlisted: Mapping[str, str] = field(default_factory=dict)
    op: str = ""
    also: Sequence[str] = ()

    def wheel(self, folder: Path) -> Path:
        """The plugin with its fault as a wheel."""
        changed = {**FILES, **self.changes}
        files = {name: text for name, text in changed.items() if text is not None}
        points = POINTS if self.points is None else self.points
        headers = HEADERS if self.headers is None else self.headers
        return write_wheel(folder, NAME, files, points, headers, self.unlisted)


def _without(start: str, *instead: str) -> list[str]:
    return [*(header for header in HEADERS if not header.startswith(start)), *instead]


def _manifest(old: str, new: str) -> dict[str, str]:
    assert old in HEAD + ROW
    return {MANIFEST: (HEAD + ROW).replace(old, new)}


def _adds(expressions: str) -> dict[str, str]:
    """A second op, `odd`, given by its expressions; the manifest lists it."""
    added = f"        registry.add(AutogradPrimitive('odd', {expressions}))\n"
    row = ROW.replace('"sound"', '"odd"').replace('templates = ["sound/sound.cl.j2"]\n', "")
    return {PLUGIN: REGISTER + added + END, MANIFEST: HEAD + ROW + row}


FAULTY: dict[str, Faulty] = {
    "no_plugin": Faulty("NC101", "a wheel without an entry point of netcl's", NAME, points={}),
    "stray_file": Faulty(
        "NC102",
        "a file that RECORD does not list",
        "more.txt (not listed)",
        unlisted={f"{PACKAGE}/more.txt": "x"},
    ),
    "gone_file": Faulty(
        "NC103",
        "a template of the manifest that is not there",
        "the wheel does not hold templates/other.cl.j2",
        _manifest('templates = ["', 'templates = ["sound/other.cl.j2", "'),
        also=["NC306"],
    ),
    "data_with_code": Faulty(
        "NC110",
        "Python in a plugin that has no entry point for it",
        f"it is data, and holds {PLUGIN}",
        {MANIFEST: HEAD + ROW + '\n[provides.definition]\nreference = "scale * x * x"\n'},
        points={"netcl_core.manifest": POINTS["netcl_core.manifest"]},
    ),
    "wrong_module": Faulty(
        "NC104",
        "a script of a module that is not there",
        f"tool = {PACKAGE}.tool:main in console_scripts",
        points={**POINTS, "console_scripts": {"tool": f"{PACKAGE}.tool:main"}},
    ),
    "tests": Faulty(
        "NC105",
        "tests in the package",
        f"{PACKAGE}/tests/test_sound.py",
        {f"{PACKAGE}/tests/test_sound.py": ""},
    ),
    "climbing": Faulty("NC106", "a member `../outside.py`", "../outside.py", {"../outside.py": ""}),
    "compiled": Faulty(
        "NC107",
        "a folder `__pycache__`",
        "sound.cpython-311.pyc",
        {f"{PACKAGE}/__pycache__/sound.cpython-311.pyc": ""},
    ),
    "neighbour": Faulty(
        "NC108", "a second package at the top level", "docs", {"docs/__init__.py": ""}
    ),
    "no_licence": Faulty(
        "NC201", "no licence in the metadata", "there is none", headers=_without("License-Exp")
    ),
    "prose_licence": Faulty(
        "NC201",
        "`License: MIT License`",
        "'MIT License' is no SPDX expression",
        headers=_without("License-Exp", "License: MIT License"),
    ),
    "two_licences": Faulty(
        "NC202",
        "another licence in the manifest",
        "'Apache-2.0', the metadata say 'MIT'",
        _manifest('"MIT"', '"Apache-2.0"'),
    ),
    "any_python": Faulty(
        "NC203", "no Requires-Python", "no Requires-Python", headers=_without("Requires-P")
    ),
    "no_core": Faulty(
        "NC204", "no requirement on netcl-core", "netcl-core", headers=_without("Requires-D")
    ),
    "any_core": Faulty(
        "NC204",
        "netcl-core>=0.1 without an upper bound",
        "has no upper bound",
        headers=_without("Requires-D", "Requires-Dist: netcl-core>=0.1"),
    ),
    "no_manifest": Faulty(
        "NC301",
        "hooks without a manifest",
        "'sound' has no entry point",
        points={"netcl_core.plugins": POINTS["netcl_core.plugins"]},
        also=["NC304"],
    ),
    "unknown_key": Faulty(
        "NC302",
        "an unknown key in the manifest",
        "'colour' was unexpected",
        _manifest('summary = "', 'colour = "red"\nsummary = "'),
    ),
    "wrong_value": Faulty(
        "NC302",
        "a maturity that is none",
        "plugin.maturity: 'ripe' is not one of",
        _manifest('license = "MIT"', 'license = "MIT"\nmaturity = "ripe"'),
    ),
    "empty_manifest": Faulty(
        "NC302",
        "an empty manifest",
        "'schema' is a required property",
        {MANIFEST: ""},
        also=["NC304"],
    ),
    "other_name": Faulty(
        "NC303",
        "another name in the manifest",
        "name = 'noise', its entry point is named 'sound'",
        _manifest('[plugin]\nname = "sound"', '[plugin]\nname = "noise"'),
    ),
    "unlisted_op": Faulty(
        "NC304",
        "an op that the manifest does not list",
        "it registers the primitive 'odd', which the manifest does not list",
        {PLUGIN: _adds("lambda x, attrs: x[0], None, arity=1")[PLUGIN]},
        op="odd",
    ),
    "unlisted_namespace": Faulty(
        "NC304",
        "a namespace that the manifest does not list",
        "it registers the namespace 'spare', which the manifest does not list",
        {
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_register_namespaces(self, registry):\n"
            + f"        registry.add('spare', '{PACKAGE}')\n"
            + END
        },
        op="spare",
    ),
    "promised_op": Faulty(
        "NC305",
        "an op of the manifest that is not registered",
        "the manifest lists the primitive 'more', which it does not register",
        {MANIFEST: HEAD + ROW + '\n[[provides]]\nname = "more"\nkind = "primitive"\n'},
        op="more",
    ),
    "wrong_row": Faulty(
        "NC306",
        "`differentiable = false` of an op that is",
        "differentiable is false, registered is true",
        _manifest("differentiable = true", "differentiable = false"),
        op="sound",
    ),
    "old_api": Faulty(
        "NC307",
        "`api = [1, 0]` beside cases",
        "the hook netcl_conformance_cases of hook API 1.1; it says 1.0",
        {
            **_manifest("[1, 1]", "[1, 0]"),
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_conformance_cases(self, op):\n        return None\n"
            + END,
        },
    ),
    "unused": Faulty(
        "NC308",
        "an implementation of an operator that nobody provides",
        "implementation 'of_nobody': nobody provides the operator 'of_nobody'",
        {
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_register_operators(self, registry):\n"
            + "        from netcl_core.autograd import Implementation\n"
            + "        registry.add(Implementation('of_nobody', 'one', print))\n"
            + END,
            MANIFEST: HEAD + ROW + '\n[[provides]]\nname = "of_nobody"\n'
            'kind = "implementation"\npriority = 0\n',
        },
        op="of_nobody",
    ),
    "bad_helper": Faulty(
        "NC401",
        "a template that is no Jinja",
        "template 'sound/helper.cl.j2': line 1",
        {f"{PACKAGE}/templates/helper.cl.j2": "{% if %}"},
    ),
    "reaching_helper": Faulty(
        "NC406",
        "a template that reaches for what belongs to Python, in a line that is never rendered",
        "line 2: it reaches for '__init__'",
        {f"{PACKAGE}/templates/helper.cl.j2": "{% if 0 %}\n{{ cycler['__init__'] }}{% endif %}"},
    ),
    "printing": Faulty(
        "NC407",
        "a kernel that prints, beside one that only speaks of it",
        "sound/helper.cl.j2: printf (",
        {f"{PACKAGE}/templates/helper.cl.j2": "/* printf() */ void f() { printf (1); }"},
    ),
    "including": Faulty(
        "NC407",
        "a kernel that includes a file, by a digraph",
        'sound/helper.cl.j2: %: include "/etc/passwd"',
        {f"{PACKAGE}/templates/helper.cl.j2": '%: include "/etc/passwd"'},
    ),
    "bad_word": Faulty(
        "NC402",
        "an unknown name in an expression, for one choice of an attribute",
        "the identifier 'y' is unknown",
        {
            TEMPLATE: WORDS
            + '{% macro forward(x, kind) %}{{ x if kind == "one" else "y" }}{% endmacro %}'
            "{% macro backward(x, kind, grad, out) %}{{ grad }}{% endmacro %}",
        },
        op="sound",
    ),
    "unread_argument": Faulty(
        "NC403",
        "an input that neither macro reads",
        "forward never reads its argument 'y'",
        {
            TEMPLATE: "{% macro forward(x, y) %}{{ x }} + 1{% endmacro %}"
            "{% macro backward(x, y, grad, out) %}{{ grad }}; none{% endmacro %}",
        },
    ),
    "unread_gradient": Faulty(
        "NC403",
        "a gradient that does not depend on grad",
        "the gradient of x0 does not read grad",
        _adds("lambda x, attrs: f'floor({x[0]})', lambda x, g, attrs, out: ['0 * 1'], arity=1"),
        op="odd",
    ),
    "gradient_count": Faulty(
        "NC404",
        "one gradient of an op of two inputs, for one choice of an attribute",
        "backward returned 1 gradients; expected 2",
        {
            TEMPLATE: WORDS + "{% macro forward(x, y, kind) %}{{ x }} + {{ y }}{% endmacro %}"
            "{% macro backward(x, y, kind, grad, out) %}{{ grad }}"
            '{% if kind == "one" %}; {{ grad }}{% endif %}{% endmacro %}',
        },
        op="sound",
    ),
    "no_kernel": Faulty(
        "NC405",
        "an operator whose template asks for a name that is not defined",
        "line 1: 'missing' is undefined",
        {
            PLUGIN: """\
import numpy as np
from netcl_core import Kernel, Kernels, Spec, hookimpl
from netcl_core.autograd import Implementation, Operator
from netcl_plugin_kit.testing import Case, normal


def plan(request):
    kernel = Kernel("sound/sound.cl.j2", "sound", (("in", 0), ("out", 0)), (1,))
    kernel.source
    return Kernels((kernel,))


operator = Operator(
    "sound", lambda x: ((x,), {}), lambda x: Spec(x.shape, x.dtype), np.negative,
    implementations=[Implementation("sound", "plain", plan)],
)


class Plugin:
    @hookimpl
    def netcl_register_operators(self, registry):
        registry.add(operator)

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case("sound", (normal(),), "neg", shapes=[[(3,)]], dtypes=["float32"],
                     differentiable=False)]


plugin = Plugin()
""",
            TEMPLATE: "{{ missing }}",
            MANIFEST: HEAD + '\n[[provides]]\nname = "sound"\nkind = "operator"\n'
            'dtypes = ["float32"]\ndifferentiable = false\npriority = 0\n',
        },
        op="sound",
    ),
    "wrong_gradient": Faulty(
        "NC501",
        "the gradient of a square without its factor 2",
        "differs from the derivative of the forward",
        {TEMPLATE: SQUARE.replace("2 * scale", "scale")},
        op="sound",
    ),
    "no_derivative": Faulty(
        "NC502",
        "a primitive of four inputs or more",
        "it takes neither 1, 2 nor 3 inputs",
        _adds(
            "lambda x, attrs: f'{x[0]} + {x[3]}', lambda x, g, attrs, out: [g] * len(x), arity=None"
        ),
        op="odd",
    ),
    "expected": Faulty(
        "NC503",
        "`xfail={'derivative': ...}` of a right gradient",
        "its case says: rounding",
        {
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_conformance_cases(self, op):\n"
            + "        from netcl_plugin_kit.testing import Case, normal\n"
            + "        return [Case(op, (normal(),), xfail={'derivative': 'rounding'})]\n"
            + END
        },
        op="sound",
    ),
    "leaving": Faulty(
        "NC601",
        "`os._exit` when its cases are asked for",
        "it ended the interpreter (exit code 7)",
        {
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_conformance_cases(self, op):\n"
            + "        import os\n        os._exit(7)\n"
            + END
        },
    ),
    "hanging": Faulty(
        "NC602",
        "an endless loop when its cases are asked for",
        "nothing was heard of it",
        {
            PLUGIN: REGISTER
            + "    @hookimpl\n    def netcl_conformance_cases(self, op):\n"
            + "        import time\n        time.sleep(600)\n"
            + END
        },
    ),
    "meddling": Faulty(
        "NC603",
        "it puts something else in the place of a function of netcl_core",
        "while checking the conformance cases: ZeroDivisionError: division by zero",
        {
            PLUGIN: REGISTER
            + END
            + "\nfrom netcl_plugin_kit.check import child\n"
            + "child.table_of = lambda name: 1 / 0\n"
        },
    ),
}
