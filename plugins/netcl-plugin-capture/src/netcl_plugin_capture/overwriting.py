"""Results that are copied over what they were computed from, written there by their kernels."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from netcl_plugin_capture.commands import (
    CallCommand,
    Command,
    CopyCommand,
    LaunchCommand,
    identity,
)


def in_place(
    commands: Sequence[Command], births: Mapping[int, Sequence[int]], shown: Collection[int]
) -> list[Command]:
    """The commands without such copies, as far as kernels allow it (`Kernel.in_place`).

    Args:
        commands: What was captured.
        births: For each buffer before which commands it was allocated: it may have been several.
        shown: The buffers that the user has after the last command.
    """
    changed: list[Command | None] = list(commands)
    touches: dict[int, list[int]] = defaultdict(list)
    for number, command in enumerate(commands):
        for buffer in command.buffers:
            touches[identity(buffer)].append(number)
    calls = [i for i, command in enumerate(commands) if isinstance(command, CallCommand)]

    def between(numbers: Sequence[int], first: int, last: int) -> bool:
        """Whether one of some sorted numbers is above `first` and at most `last`."""
        return bisect_right(numbers, first) < bisect_right(numbers, last)

    for number, command in enumerate(commands):
        if not isinstance(command, CopyCommand):
            continue
        target, source = map(identity, command.buffers)
        uses, born = touches[source], births.get(source, ())
        before = bisect_right(uses, number - 1)
        maker = commands[uses[before - 1]] if before else None
        position = _written(maker, target, source)
        if position is None or not isinstance(maker, LaunchCommand):
            continue
        made = uses[before - 1]
        later = uses[bisect_right(uses, number)] if uses[-1] > number else len(commands)
        read_later = later < len(commands) or source in shown
        if read_later and not between(born, number, later):
            continue
        if between(touches[target], made, number - 1) or between(calls, made, number):
            continue
        now = changed[made]
        assert isinstance(now, LaunchCommand)
        buffers = [*now.buffers]
        buffers[position] = command.buffers[0]
        changed[made], changed[number] = replace(now, buffers=buffers), None
    return [command for command in changed if command is not None]


def _written(maker: Command | None, target: int, source: int) -> int | None:
    """Where among a launch's buffers the source is, if it may lie where the target is read."""
    if not isinstance(maker, LaunchCommand):
        return None
    held = [identity(buffer) for buffer in maker.buffers]
    if held.count(target) != 1 or held.count(source) != 1:
        return None
    pair = held.index(target), held.index(source)
    return pair[1] if pair in maker.launch.in_place else None
