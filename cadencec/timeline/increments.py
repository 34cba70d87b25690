"""Whether an event does nothing to some counters but add a constant, whatever their values."""

from collections.abc import Iterable, Iterator, Mapping

from cadence_runtime.host.compiled import CompiledEvent, CompiledProgram
from cadence_runtime.host.expression import Call, Expression, Int, Name, Node, terms
from cadence_runtime.host.rules import Env


def only_adds(ready: CompiledProgram, event: CompiledEvent, env: Env, gains: Mapping[str, int]) -> bool:
    """Whether `event`, firing at `env`, would do the same with every counter in `gains` moved on by any number of its
    gains: the same guards hold, the clock moves as far, and each counter changes by the same amount.

    A "no" may be wrong; a "yes" never is.
    """
    own = event.event
    moving = set(gains)
    for name, expression in own.lets:
        if _reads(expression, moving):
            moving.add(name)
    exact = [size for item in own.inputs for size in item.shape]
    exact += [expression for name, expression in own.effects if name not in gains]
    exact += [own.advance[1]] if own.advance else []
    return (
        not own.reset
        and _stays_true(own.when, gains)
        and all(_stays_false(other.event.when, env, gains) for other in ready.internal if other is not event)
        and all(_is_sum(expression.tree) for name, expression in own.lets if name in moving)
        and not any(_reads(expression, moving) for expression in exact)
        and all(_adds_constant(name, effect, moving) for name, effect in own.effects if name in gains)
        and all(gains.get(queue.counter, 1) > 0 for queue in ready.program.queues)
    )


def _reads(expression: Expression | None, names: set[str]) -> bool:
    return expression is not None and not names.isdisjoint(expression.names)


def _stays_true(guard: Expression | None, gains: Mapping[str, int]) -> bool:
    return guard is None or all(_holds_further(term, gains) for term in terms(guard))


def _holds_further(term: Expression, gains: Mapping[str, int]) -> bool:
    """Whether a condition that is true stays true: it looks at no moving counter, or only holds it to a bound that it
    moves away from."""
    if gains.keys().isdisjoint(term.names):
        return True
    if not isinstance(term.tree, Call) or term.tree.op not in {"<", "<=", ">", ">="}:
        return False
    left, right = term.tree.operands
    upwards = term.tree.op in {">", ">="}
    if isinstance(right, Name) and right.name in gains:
        left, right, upwards = right, left, not upwards
    if not isinstance(left, Name) or left.name not in gains or not gains.keys().isdisjoint(_names(right)):
        return False
    return gains[left.name] > 0 if upwards else gains[left.name] < 0


def _stays_false(guard: Expression | None, env: Env, gains: Mapping[str, int]) -> bool:
    """Whether a condition that is false stays false: one of its terms is, and looks at no moving counter."""
    return guard is not None and any(
        gains.keys().isdisjoint(term.names) and not term.evaluate(env) for term in terms(guard)
    )


def _is_sum(node: Node) -> bool:
    """Whether a tree has a value for all values of its names: it only adds."""
    return all(isinstance(part, Int | Name) for part, _ in _addends(node, 1))


def _adds_constant(name: str, effect: Expression, moving: set[str]) -> bool:
    """Whether `name: effect` is `name + something fixed`."""
    parts = list(_addends(effect.tree, 1))
    own = [sign for part, sign in parts if isinstance(part, Name) and part.name == name]
    rest = [part for part, _ in parts if not (isinstance(part, Name) and part.name == name)]
    return own == [1] and all(moving.isdisjoint(_names(part)) for part in rest)


def _addends(node: Node, sign: int) -> Iterator[tuple[Node, int]]:
    if isinstance(node, Call) and node.op in {"+", "-"}:
        yield from _addends(node.operands[0], sign)
        yield from _addends(node.operands[1], sign if node.op == "+" else -sign)
    elif isinstance(node, Call) and node.op == "neg":
        yield from _addends(node.operands[0], -sign)
    else:
        yield node, sign


def _names(node: Node) -> Iterable[str]:
    if isinstance(node, Name):
        return [node.name]
    return [name for operand in node.operands for name in _names(operand)] if isinstance(node, Call) else []
