"""Module: the base of layers and models; it knows its parameters, buffers and submodules by name.

Values are plain attributes, which is the fastest way to read them. A second table, `_kinds`, says
which attributes are parameters, buffers or modules, in the order in which they were set.
`_parameters`, `_buffers` and `_modules` are PyTorch's names for the three; they are views of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor, dtype_name, get_device, lenient
from netcl_core.errors import ArgumentError, DtypeError, message, missing_name
from netcl_plugin_nn import state as states
from netcl_plugin_nn.hooks import Hooked
from netcl_plugin_nn.kinds import BUFFER, MODULE, PARAMETER, TRANSIENT, Kinds, fits, misfit
from netcl_plugin_nn.parameters import Buffer, Parameter, adopt, converted, unwrapped

Self = TypeVar("Self", bound="Module")


class Module(Hooked):
    """A part of a model: set parameters and submodules as attributes, write `forward`.

        class Affine(nn.Module):
            def __init__(self):
                self.weight = nn.Parameter(np.ones(3, np.float32))

            def forward(self, x):
                return x * self.weight

    An `nn.Parameter` becomes a parameter when it is set as an attribute, a Module a
    submodule; any other tensor is a plain attribute. `super().__init__()` is not needed.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(4, 8)
    ...         self.out = nn.Linear(8, 2)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> net = Net()
    >>> net(nc.rand(3, 4)).shape
    (3, 2)
    >>> [name for name, _ in net.named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    """

    training: bool
    _kinds: dict[str, str]
    #: The registered values by name, those of None too; what is put in or deleted here is so in
    #: the module.
    _parameters = Kinds(PARAMETER)
    _buffers = Kinds(BUFFER, TRANSIENT)
    _modules = Kinds(MODULE)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        module = super().__new__(cls)
        module.__dict__.update(training=True, _kinds={})
        return module

    # -- attributes ------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        kind, value = self._kinds.get(name), unwrapped(value)
        if isinstance(value, Parameter):
            kind = PARAMETER
        elif isinstance(value, Buffer) and kind in (None, BUFFER, TRANSIENT):
            kind = BUFFER if value.persistent else TRANSIENT
        elif isinstance(value, Module) and kind != PARAMETER:
            kind = MODULE
        elif not (kind is None or value is None or fits(kind, value)):
            raise misfit(self, name, kind, value)
        if kind is not None:  # a registered name keeps its kind, also while it holds None
            self._kinds[name] = kind
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """What Python asks for a name that it has not found; subclasses may add names of theirs.

        Raises AttributeError that names the class and the attribute.
        """
        # Once more, for Python's own error: of a property that failed this is the cause, and not
        # that the class lacks it.
        return object.__getattribute__(self, name)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        kinds = {other: kind for other, kind in self._kinds.items() if other != name}
        self.__dict__["_kinds"] = kinds  # another one: a recorded step notices what is gone

    def _register(self, kind: str, name: str, value: Any) -> None:
        if not name or "." in name:
            raise ArgumentError(message(type(self).__name__, f"the name {name!r}", "without a dot"))
        if name not in self._kinds and hasattr(self, name):
            expected, remedy = "a name that is free", "Choose another name"
            given = f"the name {name!r} is an attribute already"
            raise ArgumentError(message(type(self).__name__, given, expected, remedy))
        object.__setattr__(self, name, value)
        self._kinds[name] = kind

    def register_parameter(self, name: str, param: Any) -> None:
        """Make an nn.Parameter a parameter of this module; None is a parameter to come.

        >>> layer = nn.Linear(2, 3)
        >>> layer.register_parameter("scale", nn.Parameter(nc.ones(3), requires_grad=False))
        >>> layer.register_parameter("offset", None)
        >>> [name for name, _ in layer.named_parameters()]
        ['weight', 'bias', 'scale']

        Raises ArgumentError for any other value, and for a name that is taken.
        """
        param = unwrapped(param)
        if not (param is None or fits(PARAMETER, param)):
            raise misfit(self, name, PARAMETER, param)
        self._register(PARAMETER, name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Make a Tensor a buffer: it moves with the module and is not trained.

        A persistent buffer is part of `state_dict`; None is a buffer to come.
        """
        tensor = unwrapped(tensor)
        if not (tensor is None or fits(BUFFER, tensor)):
            raise misfit(self, name, BUFFER, tensor)
        self._register(BUFFER if persistent else TRANSIENT, name, tensor)

    def add_module(self, name: str, module: Any) -> None:
        """Make a module a submodule under a name that need not be an identifier.

        None is a submodule to come.
        """
        if not (module is None or isinstance(module, Module)):
            raise misfit(self, name, MODULE, module)
        self._register(MODULE, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _all(self, *kinds: str) -> list[tuple[str, Any]]:
        """The attributes of some kinds, in the order in which they were set."""
        space = self.__dict__
        return [(name, space[name]) for name, kind in self._kinds.items() if kind in kinds]

    def _own(self, *kinds: str) -> list[tuple[str, Any]]:
        """`_all` without those that hold None."""
        return [(name, value) for name, value in self._all(*kinds) if value is not None]

    # -- walks -----------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The submodules with their names, each once."""
        return _once(self._own(MODULE))

    def children(self) -> Iterator[Module]:
        """The submodules, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with dotted names; its own is `prefix`.

        Args:
            memo: Modules that are left out.
            prefix: What all names begin with.
            remove_duplicate: Whether one that stands in several places comes once.
        """
        modules = (
            (name, module) for name, module in self._walk(prefix) if module not in (memo or ())
        )
        return _once(modules) if remove_duplicate else modules

    def _walk(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in self._own(MODULE):
            yield from child._walk(_join(prefix, name))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def _named(
        self, *kinds: str, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All tensors of some kinds; one that stands in two places appears twice."""
        for start, module in self._walk(prefix) if recurse else [(prefix, self)]:
            for name, value in module._own(*kinds):
                yield _join(start, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All parameters with dotted names; one that is shared appears once.

        Args:
            prefix: What all names begin with.
            recurse: Whether those of submodules count.
            remove_duplicate: Whether a shared one appears once.
        """
        named = self._named(PARAMETER, prefix=prefix, recurse=recurse)
        return _once(named) if remove_duplicate else named

    def parameters(self, recurse: bool = True) -> Iterator[Tensor]:
        """All parameters; one that is shared appears once."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names, each once; arguments as of `named_parameters`."""
        named = self._named(BUFFER, TRANSIENT, prefix=prefix, recurse=recurse)
        return _once(named) if remove_duplicate else named

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; "" is this one. Raises MissingNameError for none."""
        module: Module = self
        for name in target.split(".") if target else ():
            module = module._get(name, MODULE)
        return module

    def get_parameter(self, target: str) -> Tensor:
        """The parameter of a dotted name; raises MissingNameError if there is none."""
        parameter: Tensor = self._found(target, PARAMETER)
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name; raises MissingNameError if there is none."""
        buffer: Tensor = self._found(target, BUFFER, TRANSIENT)
        return buffer

    def _found(self, target: str, *kinds: str) -> Any:
        place, _, name = target.rpartition(".")
        return self.get_submodule(place)._get(name, *kinds)

    def _get(self, name: str, *kinds: str) -> Any:
        own = dict(self._own(*kinds))
        if name not in own:
            raise missing_name(f"{type(self).__name__}, a {kinds[0]},", name, own)
        return own[name]

    def __dir__(self) -> list[str]:
        """Its attributes; names that are no identifiers, as those of a list, are left out."""
        return sorted(name for name in super().__dir__() if name.isidentifier())

    # -- state -----------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "") -> dict[str, Tensor]:
        """All parameters and persistent buffers by dotted name, detached; they share memory.

        Names begin with `prefix`, as it stands.
        """
        return {prefix + name: tensor.detach() for name, tensor in self._state()}

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        """What a state holds: of each module the parameters, then the buffers."""
        for prefix, module in self._walk():
            for name, value in (*module._own(PARAMETER), *module._own(BUFFER)):
                yield _join(prefix, name), value

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> states.LoadReport:
        """Copy tensors, PyTorch's too, or host arrays into what has the same names.

        With `strict=False` missing and unexpected names are only reported. Raises
        StateError that lists every name that does not fit, and then changes nothing.
        """
        return states.load(type(self).__name__, dict(self._state()), state, strict)

    @lenient
    def to(self: Self, *targets: Any, device: Any = None, dtype: Any = None) -> Self:
        """Move to a device, to a floating dtype, or both; in place, so optimizers go on.

        `to("numpy")`, `to("float16")`, `to("opencl:0", "float64")`, or to those of a tensor.
        Integer tensors keep their dtype. Raises before anything has moved.
        """
        place = None if device is None else get_device(device)
        kind = None if dtype is None else dtype_name(dtype, "Module.to")
        for target in targets:
            if isinstance(target, Tensor):
                place, kind = target.device, target.dtype
            elif isinstance(target, Device) or (isinstance(target, str) and target not in DTYPES):
                place = get_device(target)
            else:
                kind = dtype_name(target, "Module.to")
        if kind is not None and not DTYPES[kind].floating:
            raise DtypeError(message("Module.to", f"the dtype {kind}", "a floating dtype"))
        self._keep_results_as_data()
        tensors = [*self.parameters(), *self.buffers()]
        tensors += [tensor.grad.value for tensor in tensors if tensor.grad is not None]
        moved = [converted(tensor, place, kind) for tensor in tensors]
        for tensor, data in zip(tensors, moved, strict=True):
            adopt(tensor, data)
        return self

    def _keep_results_as_data(self) -> None:
        """Let go of the graphs of buffers: a graph keeps its device, and does not move along."""
        for module in self.modules():
            for name, value in module._own(BUFFER, TRANSIENT):
                if not value.is_leaf:
                    setattr(module, name, value.detach())

    def half(self: Self) -> Self:
        """All floating tensors as float16."""
        return self.to(dtype="float16")

    def float(self: Self) -> Self:
        """All floating tensors as float32."""
        return self.to(dtype="float32")

    def double(self: Self) -> Self:
        """All floating tensors as float64."""
        return self.to(dtype="float64")

    def bfloat16(self: Self) -> Self:
        """All floating tensors as bfloat16."""
        return self.to(dtype="bfloat16")

    def cpu(self: Self) -> Self:
        """All tensors on the default device; `to("numpy")` is NumPy."""
        return self.to(device="cpu")

    def cuda(self: Self, device: Any = None) -> Self:
        """The same under PyTorch's word for a GPU; with a number, that one."""
        return self.to(device="cuda" if device is None else get_device("cuda", device))

    def type(self: Self, dst_type: Any) -> Self:
        """All floating tensors in a dtype."""
        return self.to(dtype=getattr(dst_type, "dtype", dst_type))

    def share_memory(self: Self) -> Self:
        """Itself: workers of a DataLoader have no model."""
        return self

    def compile(self, **options: Any) -> None:
        """Let `forward` be compiled: `ag.jit_compile`; PyTorch's options change nothing."""
        self.forward = ag.jit_compile(self.forward)  # type: ignore[method-assign]

    def train(self: Self, mode: bool = True) -> Self:
        """Set `training` here, and call `train` of all submodules."""
        self.training = bool(mode)
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set `training` to False here and in all submodules."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Train all parameters, or freeze them."""
        for tensor in self.parameters():
            tensor.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        states.zero_grad(self.parameters(), set_to_none)

    def apply(self: Self, function: Callable[[Module], Any]) -> Self:
        """Call a function with every module, submodules first."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # -- text ------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the parentheses of `repr`."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}" for name, child in self._all(MODULE)]
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        return block(type(self).__name__, [*filter(None, [self.extra_repr()]), *lines])


def block(name: str, lines: Iterable[str]) -> str:
    """A name with lines between parentheses, each indented."""
    body = "\n".join(lines).replace("\n", "\n  ")
    return f"{name}(\n  {body}\n)" if body else f"{name}()"


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _once(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Named values, each value once, under its first name."""
    seen: set[int] = set()
    for name, value in pairs:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value
