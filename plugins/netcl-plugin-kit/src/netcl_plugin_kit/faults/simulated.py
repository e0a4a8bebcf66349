"""What runs inside a simulator that checks each access: ops, forward and backward, one by one.

    python -m netcl_plugin_kit.faults.simulated < request

The request is one line of JSON, which `sanitizer` writes; the answer is one line when a job
begins, one before each call and while kernels are launched, and one when it ends, so that what a
crash leaves behind names its job, and one that hangs is told from one that is slow.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, final

import numpy as np

from netcl_core import DTYPES, Device, use_device
from netcl_core.autograd import Operator
from netcl_core.errors import BuildError, DeviceError
from netcl_core.inspect.data import Array, Dtype, Shape
from netcl_core.inspect.streams import (
    Launch,
    Stream,
    StreamWrapper,
    opencl_module,
    stream_of,
    use_stream,
)
from netcl_core.plugins.protocol import registry
from netcl_plugin_kit.faults.kernel_faults import KernelFault, seeded
from netcl_plugin_kit.faults.sanitizer import BLOCK, KINDS
from netcl_plugin_kit.faults.substitution import substituted
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import table_of
from netcl_plugin_kit.testing.reference import evaluate
from netcl_plugin_kit.testing.scenarios import Scenario

#: The words of a kernel whose items have to do with their group.
_OF_GROUPS: Final = re.compile(
    r"\b(?:barrier|work_group_\w+|get_local_\w+|get_group_id|__local|local)\b"
)
_LARGEST_GROUP: Final = 64
#: An elementwise op's shapes: one element less than vectors of 4 and 16 take, then rows and splats.
FLAT: Final[Shape] = (3, 31)
BROADCAST: Final[Sequence[Shape]] = (FLAT, (31,), (3, 1))
#: A structured op's larger variants are left out: a simulator runs some 50,000 in a second.
_LARGEST: Final = 6_000
#: So many characters of what it found are handed on.
_SAID: Final = 4000
#: The buffers of one probe of a device, which frees them.
_OF_A_PROBE: Final = 2
#: Seconds between two lines that say that kernels are launched.
_EVERY: Final = 5.0


@final
class SimulatedStream(StreamWrapper):
    """Counts launches, hands out what the simulator's log gained, and hides no overrun.

    Buffers have exactly the wanted size, where the pool rounds up. None is ever freed: the
    simulator forgets what was written to an address that it uses again.
    """

    def __init__(self, inner: Stream, log: Path) -> None:
        super().__init__(inner)
        self.log = log
        self.alive: Callable[[], None] = lambda: None
        self._told = time.monotonic()
        self._held: list[Any] = []
        self._launches = 0
        self._seen = 0
        self._take_what_probes_freed()

    def _take_what_probes_freed(self) -> None:
        """Hold the addresses of the device's probes, which run here at the latest."""
        probed = self.device.probe, self.device.supports_fp16, self.device.supports_fp64
        for _ in range(_OF_A_PROBE * len(probed)):
            self.allocate(1, DTYPES["float32"])

    def allocate(self, size: int, dtype: Dtype) -> Any:
        if not size:
            return None
        cl, nbytes = opencl_module(), size * dtype.itemsize
        self._held.append(cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, nbytes))
        return self._held[-1]

    def upload(self, array: Array, dtype: Dtype) -> Any:
        given = np.ascontiguousarray(array, dtype.numpy)
        buffer = self.allocate(given.size, dtype)
        if given.size:
            opencl_module().enqueue_copy(self.device.queue, buffer, given)
        return buffer

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        """By a copy from the host: the simulator takes what clEnqueueFillBuffer wrote as unset."""
        if size:
            filled = np.full(size, value, dtype.numpy)
            opencl_module().enqueue_copy(self.device.queue, buffer, filled)

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        if time.monotonic() - self._told > _EVERY:
            self.alive()
            self._told = time.monotonic()
        for other in _sized(launch):
            self.inner.launch(other, buffers, scalars)
        self.inner.launch(launch, buffers, scalars)
        self._launches += 1

    def news(self) -> tuple[int, str]:
        """How many kernels were launched since the last call, and what was found."""
        self.finish()
        launches, self._launches = self._launches, 0
        text = ""
        if self.log.exists():
            with self.log.open(encoding="utf-8", errors="replace") as file:
                file.seek(self._seen)
                text = file.read()
                self._seen = file.tell()
        return launches, text


def _sized(launch: Launch) -> list[Launch]:
    """The same launch in groups of several sizes; none where its groups do not matter.

    A runtime may choose any size where the launch leaves it open, and the simulator takes groups
    of one item, in which no barrier diverges and no item waits for another.
    """
    if launch.local_size is not None or not _OF_GROUPS.search(launch.source):
        return []
    first, *others = launch.global_size
    sizes = [size for size in range(2, _LARGEST_GROUP + 1) if first % size == 0]
    rest = (1,) * len(others)
    return [
        Launch(launch.kernel, launch.global_size, (size, *rest), launch.constants, launch.who)
        for size in sorted({*sizes[:1], *sizes[-1:]}, reverse=True)
    ]


def watched(device: Device, log: Path) -> AbstractContextManager[SimulatedStream]:
    """Let a simulator's device be watched, with the plugins loaded."""
    registry.load()
    return use_stream(SimulatedStream(stream_of(device), log))


def choose(rank: int, note: Callable[[Sequence[Any], Any], None] = lambda all, one: None) -> None:
    """Let every operator use its `rank`-th fitting implementation (or its last).

    The last of a composite is its own function: None, for which `note` is not called.
    """

    def select(operator: Operator, request: Any, chosen: Any = ()) -> Any:
        offered = [offer.item for offer in operator.offers()]
        candidates = [each for each in offered if each is not None]
        fitting = [e for e in offered if e is None or e.requires.unmet(request) is None]
        if not fitting:
            given = f"{operator.name} on the simulator as a {request.device.kind}"
            raise DeviceError(f"{given}: none of its implementations fits")
        candidate = fitting[min(rank, len(fitting) - 1)]
        if candidate is not None:
            note(candidates, candidate)
        return candidate

    Operator.select = select  # type: ignore[method-assign,assignment]  # of this process only


def candidates_of(name: str) -> int:
    """How many implementations an op has; one for those that choose none."""
    row = registry.find_op(name)
    if row is None or not isinstance(row.record, Operator):
        return 1
    return len(row.record.offers())


# -- the calls of an op ----------------------------------------------------------------


def calls_of(op: str, cases: Sequence[Case]) -> Iterator[tuple[str, Case, list[Array]]]:
    """What an op is called with: a label, the case, the inputs."""
    for number, case in enumerate(case for case in cases if case.op == op):
        main = "float32" if "float32" in case.takes else case.takes[0]
        floating = [take for take in case.takes if DTYPES[take].floating and take != main]
        shapes = _shapes(case)
        for given in shapes:
            yield _call(case, given, main)
        for dtype in floating if number == 0 else ():
            yield _call(case, shapes[0], dtype)


def _call(case: Case, shapes: Sequence[Shape], dtype: str) -> tuple[str, Case, list[Array]]:
    return f"{case} in {dtype} for {list(shapes)}", case, case.sample(shapes, dtype)


def _shapes(case: Case) -> list[Sequence[Shape]]:
    """The variants that are small enough, the smallest if none is."""
    count = len(case.inputs)
    if case.primitive is not None and case.is_sampled and not case.shapes:
        return [[FLAT] * count, *([BROADCAST[:count]] if 1 < count <= len(BROADCAST) else [])]
    variants = sorted(case.variants, key=_elements)
    return [variant for variant in variants if 0 < _elements(variant) <= _LARGEST] or variants[:1]


def _elements(shapes: Sequence[Shape]) -> int:
    return sum(int(np.prod(shape, dtype=int)) for shape in shapes)


# -- jobs ------------------------------------------------------------------------------


def run_job(
    op: str,
    cases: Sequence[Case],
    device: Device,
    stream: SimulatedStream,
    stop: bool,
    alive: Callable[[], None],
) -> dict[str, Any]:
    """An op with the kernels of every kind of device and each of its implementations.

    With `stop` whatever goes wrong first ends it, not findings and errors alone; `alive` is
    called before each call of the op.
    """
    launched, unfit = 0, dict[str, str]()
    for kind in KINDS:
        device.kind = kind  # one of KINDS
        for rank in range(candidates_of(op)):
            choose(rank)
            with substituted_by_itself(op):
                for label, case, arrays in calls_of(op, cases):
                    alive()
                    problem = _tried(partial(evaluate, replace(case), arrays, device))
                    count, finding = stream.news()
                    launched += count
                    label = f"{label} as a {kind}"
                    if finding:
                        return {
                            "launched": launched,
                            "finding": first_of_each(finding),
                            "label": label,
                        }
                    if problem and (stop or problem[0] == "error"):
                        return {"launched": launched, problem[0]: problem[1], "label": label}
                    if problem:
                        unfit.setdefault(problem[1], label)
    return {"launched": launched, "unfit": "; ".join(f"{k} ({v})" for k, v in unfit.items())}


def run_scenario(
    scenario: Scenario, kind: str, device: Device, stream: SimulatedStream
) -> dict[str, Any]:
    """A scenario with the kernels of one kind of device, the only one of this process.

    A plugin may keep what it plans per device, and a device does not change its kind.
    """
    device.kind = kind  # type: ignore[assignment]  # one of KINDS
    choose(0)
    problem = _tried(lambda: scenario.play(device))
    launched, finding = stream.news()
    report: dict[str, Any] = {"launched": launched, "label": f"{scenario} as a {kind}"}
    if finding:
        report["finding"] = first_of_each(finding)
    elif problem:
        report[problem[0]] = problem[1]
    return report


def first_of_each(log: str) -> str:
    """Of what the simulator found the first of each kind: one fault fills pages with one kind."""
    blocks: dict[str, str] = {}
    for block in filter(str.strip, BLOCK.split(log)):
        blocks.setdefault(re.sub(r"\d\w*", "", block.strip().partition("\n")[0]), block)
    return "\n".join(blocks.values())[:_SAID]


def _tried(call: Callable[[], Any]) -> tuple[str, str] | None:
    """Make one call: None, or what kept it from running."""
    try:
        call()
    except (BuildError, DeviceError) as error:  # what the simulator is too little for
        return "unfit", f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except Exception as error:  # an op may raise anything; it becomes its result
        return (
            "error",
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        )
    return None


def substituted_by_itself(op: str) -> AbstractContextManager[None]:
    """A fresh copy of an op's record, so that its kernels are planned and built anew."""
    row = registry.find_op(op)
    if row is None:
        return nullcontext()
    return substituted(row, replace(row.record))


def _own_stdout() -> TextIO:
    """The pipe to who listens; what ops and kernels print goes to stderr from now on."""
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return kept


def main() -> None:
    """Serve one request."""
    request: Mapping[str, Any] = json.loads(sys.stdin.readline())
    answer = _own_stdout()
    sys.path[:] = request["path"]

    def say(**values: Any) -> None:
        print(json.dumps(values), file=answer, flush=True)

    with (
        use_device("opencl:oclgrind") as device,
        watched(device, Path(request["log"])) as stream,
    ):
        table = table_of(request["provider"])
        scenarios = {str(scenario): scenario for scenario in table.scenarios}
        for number, job in enumerate(request["jobs"]):
            say(begin=number)
            stream.alive = partial(say, alive=number)
            if job["op"] in scenarios:
                report = run_scenario(scenarios[job["op"]], job["kind"], device, stream)
                say(end=number, changed=0, **report)
                continue
            fault = KernelFault(**job["fault"]) if job["fault"] else None
            faulty: AbstractContextManager[Any] = nullcontext()
            if fault is not None:
                faulty = seeded(fault, device)
            with faulty as faulty_stream:
                result = run_job(
                    job["op"],
                    table.cases,
                    device,
                    stream,
                    fault is not None,
                    stream.alive,
                )
            say(end=number, changed=len(faulty_stream.changed) if faulty_stream else 0, **result)


if __name__ == "__main__":
    main()
