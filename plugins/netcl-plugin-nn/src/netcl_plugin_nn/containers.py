"""Containers: Sequential runs modules one after the other, ModuleList and ModuleDict hold them;
ParameterList and ParameterDict hold parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, TypeVar

from netcl_core import Tensor
from netcl_plugin_nn.held import Keyed, Listed
from netcl_plugin_nn.kinds import MODULE, PARAMETER
from netcl_plugin_nn.module import Module, block

Self = TypeVar("Self", bound="Sequential")


class Sequential(Listed):
    """Modules that run one after the other.

        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        net = nn.Sequential(OrderedDict(first=nn.Linear(2, 8), act=nn.ReLU()))

    `net[0]`, `net[1:]`, `len(net)` and iteration work as with a list; a slice keeps the names.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> model(nc.rand(3, 4)).shape, len(model)
    ((3, 2), 3)

    Args:
        modules: The modules, in order.
    """

    kind = MODULE

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            super().__init__(modules)

    def _part(self: Self, named: Iterable[tuple[str, Any]]) -> Self:
        part: Self = type(self).__new__(type(self))
        part._hold(named)
        return part

    def __add__(self: Self, other: Iterable[Any]) -> Self:
        return self._part(()).extend([*self, *other])

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*[name for _ in range(times) for name in self])

    __rmul__ = __mul__

    def forward(self, input: Any) -> Any:
        """`input` through all modules in order."""
        for module in self:
            input = module(input)
        return input


class ModuleList(Listed):
    """A list of modules whose parameters count; it has no forward of its own.

    >>> blocks = nn.ModuleList([nn.Linear(2, 3), None])
    >>> blocks.append(nn.ReLU())
    ModuleList(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): None
      (2): ReLU()
    )

    None keeps a place.
    """

    kind = MODULE

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__(() if modules is None else modules)

    def __repr__(self) -> str:
        """As PyTorch's: neighbours that look alike share a line, with their number."""
        lines, first = [], 0
        for text, run in groupby(map(repr, self)):
            count = len(list(run))
            last = first + count - 1
            lines.append(
                f"({first}-{last}): {count} x {text}" if last > first else f"({first}): {text}"
            )
            first = last + 1
        return block(type(self).__name__, lines)


class ModuleDict(Keyed):
    """Modules by name, whose parameters count; it has a dict's methods.

    >>> heads = nn.ModuleDict({"color": nn.Linear(4, 3), "shape": nn.Linear(4, 2)})
    >>> list(heads), heads["shape"](nc.zeros(1, 4)).shape
    (['color', 'shape'], (1, 2))

    Args:
        modules: The modules by their names.
    """

    kind = MODULE

    def __init__(self, modules: Any = None) -> None:
        super().__init__(modules)


class ParameterList(Listed):
    """A list of parameters; tensors and arrays that are put in become parameters.

    >>> weights = nn.ParameterList([np.ones(2, np.float32), nc.zeros(3)])
    >>> [(name, weight.shape) for name, weight in weights.named_parameters()]
    [('0', (2,)), ('1', (3,))]

    Args:
        values: The parameters, in order.
    """

    kind = PARAMETER

    def __repr__(self) -> str:
        return block(type(self).__name__, _lines(self))


class ParameterDict(Keyed):
    """Parameters by name; tensors and arrays that are put in become parameters.

    >>> each = nn.ParameterDict({"scale": nn.Parameter(nc.ones(3))})
    >>> each["scale"].shape, list(each)
    ((3,), ['scale'])
    """

    kind = PARAMETER

    def __init__(self, parameters: Any = None) -> None:
        super().__init__(parameters)

    def setdefault(self, key: str, default: Any = None) -> Tensor:
        """The parameter of a name; if there is none, the default, which becomes it."""
        if key not in self:
            self[key] = default
        tensor: Tensor = self[key]
        return tensor

    def __repr__(self) -> str:
        return block(type(self).__name__, _lines(self))


def _lines(holder: ParameterList | ParameterDict) -> list[str]:
    return [
        f"({name}): None"
        if value is None
        else f"({name}): Parameter of {value.dtype} and shape {value.shape}"
        for name, value in holder._held()
    ]
