"""What a node has kept for its gradients, once a backward pass has let it go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

from netcl_core.errors import GradientError, message


def walked_before(who: str) -> GradientError:
    """The error for a second walk over a graph whose saved values are gone."""
    return GradientError(
        message(
            who,
            "a graph that was walked before, and whose saved values were freed then",
            "a graph that is walked for the first time",
            "Call the first backward (or grad) with retain_graph=True, or compute the value again",
        )
    )


@final
class _Released(Sequence[Any]):
    """What was kept, once it is freed: to look into it raises GradientError."""

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self
        raise walked_before("backward")

    def __iter__(self) -> Any:
        raise walked_before("backward")

    def __len__(self) -> int:
        return 0

    def __contains__(self, value: object) -> bool:
        return False


RELEASED: Final = _Released()
