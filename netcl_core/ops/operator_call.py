"""OperatorCall: a structured op as a call: its plan, and the gradients of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

from netcl_core.dtypes import DTYPES
from netcl_core.ops.implementations import Saved
from netcl_core.ops.operator_plan import OperatorPlan
from netcl_core.ops.residuals import give_away, is_given_away
from netcl_core.tape.apply import Needs, result_nodes
from netcl_core.tape.gradients import checked, no_second_derivative, refuse_unrecorded, whole
from netcl_core.tape.node import Node
from netcl_core.tape.recorded_gradients import recomputed_gradients
from netcl_core.tape.unread import Unread
from netcl_core.tensors.tensor import Tensor

#: `(saved, *grads)`: the gradient of each operand.
Rule: TypeAlias = Callable[..., Sequence[Any]]


@final
class OperatorCall(OperatorPlan):
    """An operator for one device, shapes, dtypes and attributes, as a call (see `apply.Call`)."""

    __slots__ = ("_rule",)

    def rule(self) -> Rule | None:
        """The implementation's own backward, else the operator's, else its decomposition's."""
        if not hasattr(self, "_rule"):
            own = self.implementation.backward if self.launches else None
            decomposed = None if self.operator.function is None else self._decomposed
            self._rule: Rule | None = own or self.operator.backward or decomposed
        return self._rule

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        reached = True in needs and self.rule() is not None
        return tuple([reached and DTYPES[spec.dtype].floating for spec in self.results])

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs must not change: those that the gradients read, and all where a residual
        may be given away as a gradient, since a second pass computes it again."""
        inputs = self.request.inputs
        again = any(spec in inputs for spec in self.residuals)
        return tuple(range(len(inputs))) if again else self.reads(needs)

    def reads(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs the gradients read."""
        rule = self.rule()
        saves: Sequence[int] | None = None
        if self.launches and rule is self.implementation.backward:
            asked = self.implementation.saves
            wanted = [bool(operand) for operand in self.operands(needs)]
            saves = None if asked is None else asked(self.request, wanted)
        elif rule is self.operator.backward:
            saves = self.operator.saves
        return tuple([k for k, i in enumerate(self.present) if saves is None or i in saves])

    def unread(self, needs: Needs) -> Unread:
        """What neither the gradients read nor gradients of these, by the operator's backward."""
        operator, rule = self.operator, self.rule()
        operands, results = {*self.saves(needs)}, set[int]()
        for record in (self.implementation if self.launches else operator, operator):
            if record.backward is not None and (record is operator or record.backward is rule):
                every = range(len(self.results))
                results.update(every if record.saves_results is None else record.saves_results)
        if operator.backward is None and operator.function is not None:
            operands.update(range(len(needs)))  # it is computed again
        elif operator.backward is not rule:
            read = operator.saves
            operands.update(k for k, i in enumerate(self.present) if read is None or i in read)
        return (
            tuple([k for k in range(len(needs)) if k not in operands]),
            tuple([i for i in range(len(self.results)) if i not in results]),
        )

    @property
    def adds(self) -> bool:
        """Whether gradients may be added to the inputs' sums so far."""
        return self.launches and self.implementation.adds

    def gradients(
        self, node: Node, grads: Sequence[Any], needs: Needs, held: Sequence[Any] = ()
    ) -> list[Any]:
        """The gradients of the inputs; `held` are the sums that they may be added to."""
        values = [x.value for x in node.inputs]
        return self.gradients_from(values, node.kept, grads, needs, held)

    def gradients_from(
        self,
        inputs: Sequence[Any],
        kept: Sequence[Any],
        grads: Sequence[Any],
        needs: Needs,
        held: Sequence[Any] = (),
    ) -> list[Any]:
        """The same from what the gradients read: the inputs, and the results with residuals."""
        backward = self.rule()
        assert backward is not None  # else nothing flows
        given = [grad if grad is None or type(grad) is Tensor else whole(grad) for grad in grads]
        again = is_given_away(kept)
        kept_now = self._computed(inputs, True) if again else kept
        saved = self._saved(inputs, kept_now, needs, held)
        try:
            parts = checked(self.name, backward(saved, *given), self.operands(inputs))
        except Exception as error:
            self._tell_gradients(error)
            raise
        if not again:
            give_away(kept, len(self.results), saved.residuals, parts)
        return [parts[i] for i in self.present]

    def _saved(
        self, inputs: Sequence[Any], kept: Sequence[Any], needs: Needs, held: Sequence[Any] = ()
    ) -> Saved:
        count = len(self.results)
        if len(self.present) < len(self.specs):
            inputs, needs = self.operands(inputs), tuple(map(bool, self.operands(needs)))
            held = self.operands(held) if held else ()
        return Saved(
            self.name,
            tuple(inputs),
            kept[:count],
            self.attrs,
            needs,
            tuple(kept[count:]) if len(kept) > count else (),
            tuple(held),
        )

    def _tell_gradients(self, error: Exception) -> None:
        own = self.implementation if self.launches and self.implementation.backward else None
        self._tell(error, f"{self.operator.source_of(own)} computed gradients")

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same by the operator's backward or its function, whose ops are recorded.

        An implementation's own backward is for speed, and serves where there is neither. What is
        kept for a backward alone has no graph, so that one which reads it cannot serve.
        """
        inputs = self.operands(node.inputs)
        if self.operator.backward is None and self.operator.function is not None:
            wanted = [bool(operand) for operand in self.operands(needs)]
            parts = recomputed_gradients(self._again, inputs, grads, wanted, record=True)
            return [parts[i] for i in self.present]
        backward = self._differentiable_rule()
        results = result_nodes(node, node.kept[: len(self.results)])
        try:
            gradients = backward(self._saved(node.inputs, results, needs), *grads)
            parts = checked(self.name, gradients, inputs, recorded=True)
            refuse_unrecorded(self.name, parts, (*grads, *node.inputs))
        except Exception as error:
            self._tell_gradients(error)
            raise
        return [parts[i] for i in self.present]

    def _differentiable_rule(self) -> Rule:
        operator = self.operator
        own = None if operator.backward is not None else self.implementation
        backward = operator.backward if own is None else own.backward
        if (operator.residuals if own is None else own.residuals) is not None:
            raise no_second_derivative(self.name, "its gradient reads what is kept for it alone")
        assert backward is not None  # else nothing flows
        return backward

    def _decomposed(self, saved: Saved, *grads: Any) -> list[Any]:
        """Gradients by the operator's own function, computed again."""
        return recomputed_gradients(self._again, saved.inputs, grads, saved.needs, record=False)

    def _again(self, *operands: Any) -> Any:
        """The results by the operator's own function."""
        return self.operator.decomposed(operands, self.attrs)
