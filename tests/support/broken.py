"""Plugins that are broken, one of each kind, with what has to be said of each.

The examples of docs/plugin-errors.md are these. `crash` and `hang` take their process
with them, so they are installed for the probe alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distributions import install, install_plugin

from netcl_core.version import VERSION

HEAD = "from netcl_core import hookimpl\nfrom netcl_core.autograd import AutogradPrimitive\n"
CLASS = HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_primitives(self, registry):\n"
SQUARE = "lambda x, a: f'{x[0]} * {x[0]}', lambda x, g, a, o: [f'2 * {x[0]} * {g}']"
END = "\nplugin = Plugin()"
GOOD = CLASS + "        registry.add_template('plus.cl.j2', name={name!r})" + END
UNTOUCHED = "raise AssertionError('must not be imported')"


@dataclass(frozen=True)
class Broken:
    """One broken plugin: the code of its failure, what is wrong, and what the reason says."""

    failure: str
    what: str
    reason: str
    code: str = UNTOUCHED
    templates: dict[str, str] = field(default_factory=dict)
    manifest: str | None = None
    headers: Sequence[str] = ()
    entry_points: str = ""

    @property
    def state(self) -> str:
        """What becomes of it."""
        return "incompatible" if self.failure.startswith("NP10") else "quarantined"


def _adds(expression: str) -> str:
    return f"{CLASS}        registry.add({expression}){END}"


BROKEN: dict[str, Broken] = {
    "future_api": Broken(
        "NP101", "api = [1, 99]", "hook API 1.99", manifest="[plugin]\napi = [1, 99]\n"
    ),
    "other_api": Broken(
        "NP101", "api = [2, 0]", "hook API 2.0", manifest="[plugin]\napi = [2, 0]\n"
    ),
    "other_python": Broken(
        "NP102",
        "Requires-Python: >=4",
        "needs Python >=4",
        headers=["Requires-Python: >=4"],
    ),
    "lonely": Broken(
        "NP103",
        "Requires-Dist: no-such-distribution",
        "no-such-distribution>=2, which is not installed",
        headers=["Requires-Dist: no-such-distribution>=2", "Requires-Dist: x; extra == 'y'"],
    ),
    "outdated": Broken(
        "NP104",
        "Requires-Dist: netcl-core>=99",
        f"netcl-core {VERSION} is installed",
        headers=["Requires-Dist: netcl-core>=99"],
    ),
    "future_schema": Broken(
        "NP105", "schema = 99 in the manifest", "has schema 99", manifest="schema = 99\n"
    ),
    "bad_manifest": Broken(
        "NP110", "a manifest that is no TOML", "its manifest", manifest="schema = = 1\n"
    ),
    "nested_manifest": Broken(
        "NP110", "a manifest of 3,000 nested lists", "its manifest", manifest="x = " + "[" * 3000
    ),
    "no_manifest": Broken(
        "NP110",
        "an entry point to a manifest that is not there",
        "was not found",
        entry_points="[netcl_core.manifest]\nno_manifest = no_manifest_package:other.toml\n",
    ),
    "climbing_manifest": Broken(
        "NP110",
        "an entry point to a manifest outside of the package",
        "was not found",
        entry_points="[netcl_core.manifest]\nclimbing_manifest = json:../../../x\n",
    ),
    "mistyped": Broken(
        "NP111",
        'api = "1.0" in the manifest',
        "expected a list",
        manifest='[plugin]\napi = "1.0"\n',
    ),
    "malformed": Broken(
        "NP112",
        "an entry_points.txt with a line that is no entry point",
        "entry_points.txt",
        entry_points="[netcl_core.plugins]\nthis is not an entry point\n",
    ),
    "endless": Broken(
        "NP112",
        "a requirement whose version has 5,000 digits",
        "ValueError: ",
        headers=[f"Requires-Dist: netcl-core>={'9' * 5000}"],
    ),
    "unsaid": Broken(
        "NP319",
        "an entry point of the short road that is not called as its op",
        "the primitive 'unsaid_op', of which its entry point says nothing",
        f"{HEAD}op = AutogradPrimitive('unsaid_op', {SQUARE}, arity=1)\n",
        entry_points="[netcl_core.plugins]\n[netcl_core.primitives]\nunsaid = unsaid_package:op\n",
    ),
    "absent": Broken(
        "NP201",
        "an entry point to a module that does not exist",
        "nowhere_package",
        entry_points="[netcl_core.plugins]\nabsent = nowhere_package.deep:plugin\n",
    ),
    "importing": Broken(
        "NP202",
        "import no_such_module_anywhere",
        "no_such_module_anywhere",
        "import no_such_module_anywhere",
    ),
    "importing_late": Broken(
        "NP202",
        "a hook that imports it",
        "no_such_module_anywhere",
        f"{CLASS}        import no_such_module_anywhere{END}",
    ),
    "import_name": Broken(
        "NP203",
        "from json import no_such_name",
        "cannot import name 'no_such_name'",
        "from json import no_such_name",
    ),
    "syntax": Broken("NP204", "a syntax error", "SyntaxError", "def ("),
    "nothing": Broken(
        "NP205",
        "a module without the object",
        "no attribute 'plugin'",
        "something_else = 1",
    ),
    "exiting": Broken("NP206", "sys.exit(3)", "SystemExit: 3", "import sys\nsys.exit(3)"),
    "raising": Broken(
        "NP207",
        "raise RuntimeError('out of order')",
        "out of order",
        "raise RuntimeError('out of order')",
    ),
    "asking": Broken(
        "NP207",
        "an AttributeError of its own while it is imported",
        "no attribute 'no_such_function'",
        "import json\njson.no_such_function()",
    ),
    "misspelt": Broken(
        "NP301",
        "a hook named netcl_register_primitive",
        "Did you mean netcl_register_primitives?",
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_primitive(self, registry): 1"
        f"\n{END}",
    ),
    "unmarked": Broken(
        "NP302",
        "a hook without @hookimpl",
        "Put @hookimpl above it",
        f"class Plugin:\n    def netcl_register_primitives(self, registry): 1\n{END}",
    ),
    "foreign": Broken(
        "NP302",
        "a hook with the marker of another project",
        "Put @hookimpl above it",
        "import pluggy\nmark = pluggy.HookimplMarker('otherproject')\n"
        f"class Plugin:\n    @mark\n    def netcl_register_primitives(self, registry): 1\n{END}",
    ),
    "hookless": Broken("NP303", "an object without hooks", "has no hooks", "plugin = object()"),
    "wrong_argument": Broken(
        "NP304",
        "a hook with an argument that does not exist",
        "Argument(s) {'",
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_namespaces(self, r): 1\n"
        f"    @hookimpl\n    def netcl_register_primitives(self, wrong): 1\n{END}",
    ),
    "wrong_record": Broken(
        "NP305", "registry.add('no record')", "an object of type str to add", _adds("'no record'")
    ),
    "bad_name": Broken(
        "NP308",
        "an op named 'two words'",
        "'two words'",
        _adds(f"AutogradPrimitive('two words', {SQUARE}, arity=1)"),
    ),
    "bad_space": Broken(
        "NP306",
        "a namespace named 'two words'",
        "'two words'",
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_namespaces(self, registry):\n"
        f"        registry.add('two words', 'json')\n{END}",
    ),
    "twice": Broken(
        "NP307",
        "one op registered twice",
        "registered already",
        CLASS
        + f"        registry.add(AutogradPrimitive('twice_op', {SQUARE}, arity=1))\n" * 2
        + END,
    ),
    "bad_expression": Broken(
        "NP308",
        "a C expression that is none",
        "bad_op",
        _adds("AutogradPrimitive('bad_op', lambda x, a: f'{x[0]} +* 2', None, arity=1)"),
    ),
    "no_choices": Broken(
        "NP308",
        "a space of settings without a value",
        "the space of softmax: odd: tile has no values",
        HEAD + "from netcl_core.autograd import Implementation, Space\n"
        "class Plugin:\n    @hookimpl\n    def netcl_register_operators(self, registry):\n"
        "        space = Space({'tile': ()}, lambda request: {})\n"
        f"        registry.add(Implementation('softmax', 'odd', print, space=space)){END}",
    ),
    "missing_template": Broken(
        "NP309",
        "a template that is not there",
        "nowhere.cl.j2 was not found",
        f"{CLASS}        registry.add_template('nowhere.cl.j2'){END}",
    ),
    "bad_template": Broken(
        "NP310",
        "a template that is no Jinja",
        "template 'bad_template/bad.cl.j2' of netcl-plugin-bad_template: line 1",
        f"{CLASS}        registry.add_template('bad.cl.j2'){END}",
        {"bad.cl.j2": "{% macro forward(x) %}{{ x }"},
    ),
    "reaching": Broken(
        "NP316",
        "a template that runs Python code",
        "line 3: it reaches for '__globals__'",
        f"{CLASS}        registry.add_template('odd.cl.j2'){END}",
        {
            "odd.cl.j2": "{% macro forward(x) %}\n{{ x }}\n"
            "{{ cycler.__init__.__globals__.os.abort() }}{% endmacro %}"
        },
    ),
    "endless_template": Broken(
        "NP317",
        "a template with a macro that calls itself for ever",
        "template 'endless_template/odd.cl.j2' of netcl-plugin-endless_template: line 1",
        f"{CLASS}        registry.add_template('odd.cl.j2'){END}",
        {"odd.cl.j2": "{% macro forward(x) %}{{ forward(x) }}{{ x }}{% endmacro %}"},
    ),
    "odd_definition": Broken(
        "NP318",
        "a definition that calls what is no function of NumPy's, in a plugin that is data",
        "the function open is unknown in \"open('/etc/passwd')\"",
        manifest="[[provides]]\nname = 'odd'\nkind = 'operator'\ntemplates = ['a/a.cl.j2']\n"
        "[provides.definition]\ninputs = 'x'\nshape = 'x.shape'\n"
        "reference = \"open('/etc/passwd')\"\n",
        templates={"a.cl.j2": ""},
        entry_points="[netcl_core.plugins]\n[netcl_core.manifest]\n"
        "odd_definition = odd_definition_package:netcl_plugin.toml\n",
    ),
    "half_way": Broken(
        "NP311",
        "a hook that raises after it has added an op",
        "ValueError: half way",
        CLASS + f"        registry.add(AutogradPrimitive('half_op', {SQUARE}, arity=1))\n"
        f"        raise ValueError('half way'){END}",
    ),
    "half_way_later": Broken(
        "NP206",
        "a second hook that exits",
        "SystemExit: 1",
        CLASS + f"        registry.add(AutogradPrimitive('later_op', {SQUARE}, arity=1))\n"
        "    @hookimpl\n    def netcl_register_namespaces(self, registry):\n"
        f"        registry.add('half_space', 'json')\n        raise SystemExit(1)\n{END}",
    ),
}

_ODD = "class Odd(Exception):\n    {0}\nraise Odd"

BROKEN |= {
    "interrupting": Broken(
        "NP207",
        "raise KeyboardInterrupt, though nobody pressed Ctrl-C",
        "KeyboardInterrupt: ",
        "raise KeyboardInterrupt",
    ),
    "exhausted": Broken("NP207", "raise MemoryError", "MemoryError: ", "raise MemoryError"),
    "mute": Broken(
        "NP207",
        "an exception whose text cannot be had",
        "Odd, whose text raises SystemExit",
        _ODD.format("def __str__(self): raise SystemExit"),
    ),
    "secretive": Broken(
        "NP207",
        "an exception that takes no note, and whose code, traceback and class cannot be had",
        "Odd: ",
        _ODD.format(
            "def _(self, *_): raise MemoryError\n    add_note = _\n"
            "    code = __traceback__ = __class__ = property(_)"
        ),
    ),
    "escaping": Broken(
        "NP207",
        "control characters in an exception's text",
        r"RuntimeError: \x1b[2Jgone",
        "raise RuntimeError('\\x1b[2Jgone')",
    ),
    "negative_api": Broken(
        "NP111", "api = [1, -5]", "api = [1, -5]", manifest="[plugin]\napi = [1, -5]\n"
    ),
    "huge_manifest": Broken(
        "NP110",
        "a manifest of two million bytes",
        "it has 2000000 bytes, more than 1048576",
        manifest="#" * 2_000_000,
    ),
    "deep_manifest": Broken(
        "NP110",
        "a manifest whose tables are nested 50,000 deep",
        "it is nested too deeply",
        manifest="x" + ".x" * 50_000 + " = 1\n",
    ),
}

_ORDER = (
    "class Plugin:\n    @hookimpl({options})\n    def netcl_register_primitives(self, registry):"
)


def _marked(option: str, what: str, body: str = "1") -> Broken:
    """A hook whose mark asks for an order of calls."""
    return Broken(
        "NP314",
        what,
        f"marks netcl_register_primitives with {option}=True",
        HEAD + _ORDER.format(options=f"{option}=True") + f" {body}\n{END}",
    )


BROKEN |= {
    "shadowed": Broken(
        "NP312",
        "an op named as a function of the core",
        "'tensor': netcl_core.autograd.tensor is the core's own",
        _adds(f"AutogradPrimitive('tensor', {SQUARE}, arity=1)"),
    ),
    "shadowed_module": Broken(
        "NP312",
        "an op named as a documented submodule",
        "netcl_core.autograd.training_compiler is the core's own",
        _adds(f"AutogradPrimitive('training_compiler', {SQUARE}, arity=1)"),
    ),
    "shadowed_space": Broken(
        "NP312",
        "a namespace named as a part of the core",
        "netcl_core.runtime is the core's own",
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_namespaces(self, registry):\n"
        f"        registry.add('runtime', 'json')\n{END}",
    ),
    "useless": Broken(
        "NP313",
        "an implementation of its own primitive",
        "an implementation of 'useless_op', which is a primitive",
        CLASS
        + f"        registry.add(AutogradPrimitive('useless_op', {SQUARE}, arity=1))\n"
        + "    @hookimpl\n    def netcl_register_operators(self, registry):\n"
        + "        from netcl_core.autograd import Implementation\n"
        + f"        registry.add(Implementation('useless_op', 'one', print)){END}",
    ),
    "around": _marked("wrapper", "a hook that wraps those of others", "yield"),
    "around_old": _marked("hookwrapper", "`hookwrapper=True`", "yield"),
    "pushing": _marked("tryfirst", "`tryfirst=True`"),
    "waiting": _marked("trylast", "`trylast=True`"),
    "doubled": Broken(
        "NP314",
        "two functions for one hook",
        "has netcl_register_primitives twice",
        HEAD + _ORDER.format(options="") + " 1\n"
        "    @hookimpl(specname='netcl_register_primitives')\n"
        f"    def again(self, registry): 1\n{END}",
    ),
    "bad_priority": Broken(
        "NP315",
        "priority='high'",
        "'high_op' with the priority 'high'; expected an integer",
        CLASS + f"        registry.add(AutogradPrimitive('high_op', {SQUARE}, 1), 'high'){END}",
    ),
    "bad_pattern": Broken(
        "NP308",
        "a training pattern whose matcher is none",
        "the matcher 'no matcher'; expected a MatchedOp",
        HEAD + "from netcl_core.autograd import TrainingPattern\n"
        "class Plugin:\n    @hookimpl\n    def netcl_register_patterns(self, registry):\n"
        f"        registry.add(TrainingPattern('odd', 'no matcher', print)){END}",
    ),
    "bad_policy": Broken(
        "NP308",
        "an amp policy with a rule that is none",
        "the rule 'never' for exp; expected allow or keep or promote",
        HEAD + "from netcl_plugin_amp import AmpPolicy\n"
        "class Plugin:\n    @hookimpl\n    def netcl_register_amp_policies(self, registry):\n"
        f"        registry.add(AmpPolicy('odd', 'float16', {{'exp': 'never'}})){END}",
    ),
}

DEADLY: dict[str, Broken] = {
    "crash": Broken(
        "NP208",
        "a crash in native code",
        "it ended the interpreter (SIGSEGV)",
        "import ctypes\nctypes.string_at(0)",
    ),
    "leaving": Broken(
        "NP208",
        "os._exit",
        "it ended the interpreter (exit code 7)",
        "import os\nos._exit(7)",
    ),
    "hang": Broken(
        "NP209",
        "an endless loop",
        "did not finish loading",
        "import time\ntime.sleep(600)",
    ),
}


def install_broken(site: Path, name: str) -> Path:
    """Install one of the broken plugins; returns the folder of its metadata."""
    row = {**BROKEN, **DEADLY}[name]
    info = install_plugin(site, name, row.code, row.templates, row.manifest, row.headers)
    if row.entry_points:
        points = info / "entry_points.txt"
        own = points.read_text(encoding="utf-8")
        if "[netcl_core.plugins]" in row.entry_points:
            own = ""
        points.write_text(own + "\n" + row.entry_points, encoding="utf-8")
    return info


def install_duplicates(site: Path) -> None:
    """Two plugins of one name beside `aaa`, and one of the core's name."""
    install(
        site,
        "other-aaa",
        {"other_aaa.py": UNTOUCHED},
        {"netcl_core.plugins": {"aaa": "other_aaa:plugin"}},
    )
    install(
        site,
        "other-core",
        {"other_core/__init__.py": UNTOUCHED, "other_core/templates/x.cl.j2": ""},
        {"netcl_core.plugins": {"core": "other_core:plugin"}},
    )
