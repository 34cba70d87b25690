"""Dead code: drops every op whose results nobody needs, and so every op that only makes a view.

Kept: what writes bytes that an output, a new leaf or a later kept op reads, random draws (they move the generator even
when their result is unused), and assertions. A copy of a window onto itself (what `a[i] += b` ends with) does nothing.
"""

from dataclasses import replace

from cadence_runtime.format.tape import Op, View
from cadencec.passes.program import Context, Program, compact
from cadencec.trace.effects import effects_of


def run(program: Program, context: Context) -> Program:
    """Return the program with only the ops that matter."""
    tape = program.tape
    bindings = (*tape.outputs, *tape.state_out)
    needed = {binding.value.storage for binding in bindings if isinstance(binding.value, View)}
    kept: list[Op] = []
    for op in reversed(tape.ops):
        if op.name == "aten::copy_" and op.args[0] == op.args[1]:
            continue
        if op.draws or not needed.isdisjoint(op.writes) or effects_of(op.name).asserts:
            needed.update(op.reads)
            kept.append(op)
    return compact(replace(program, tape=replace(tape, ops=tuple(reversed(kept)))))
