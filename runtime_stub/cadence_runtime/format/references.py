"""What the parts of a plan say of one another: indices are in range, names are known, interfaces agree."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from cadence_runtime.errors import PlanError
from cadence_runtime.format.check_tape import LITERALS, is_shape
from cadence_runtime.format.plan import Capture, Form, Plan, TensorForm
from cadence_runtime.format.strict_json import shown
from cadence_runtime.format.tape import ITEM_BYTES, Binding, Literal, Tape, View


def blob_digests(plan: Plan) -> tuple[str, ...]:
    """Return the sha256 of each blob."""
    return tuple(hashlib.sha256(blob).hexdigest() for blob in plan.blobs)


def reference_errors(plan: Plan, digests: Sequence[str]) -> Iterator[PlanError]:
    """Yield CAD5501 to CAD5507; `digests` are those of the blobs."""
    yield from _bad_names(plan)
    yield from _bad_leaf_forms(plan)
    yield from _bad_bytes(plan, digests)
    paths = [leaf.path for leaf in plan.leaves]
    for number, capture in enumerate(plan.captures):
        yield from _bad_capture(plan, number, capture, paths)
    if (plan.target == "cuda") != (plan.cuda is not None):
        got = "one" if plan.cuda is not None else "none"
        yield _error("CAD5507", f"a plan for {plan.target} with the wrong parts", "a CUDA part for cuda only", got)


def _error(code: str, what: str, expected: str, got: str, at: str | None = None) -> PlanError:
    return PlanError(code, what, expected=expected, got=got, at=at)


def _bad_names(plan: Plan) -> Iterator[PlanError]:
    lists: tuple[tuple[str, Iterable[str]], ...] = (
        ("leaf", (leaf.path for leaf in plan.leaves)),
        ("weight", (weight.name for weight in plan.weights)),
        ("constant", (constant.sha256 for constant in plan.constants)),
        # A few bytes more would each be loaded, or written, anew.
        ("kernel image", (image.sha256 for image in (plan.cuda.images if plan.cuda else ()))),
        ("device variable", (f"{each.image} {each.name}" for each in (plan.cuda.globals if plan.cuda else ()))),
    )
    for kind, names in lists:
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        for name in twice[:1]:
            yield _error("CAD5501", f"a {kind} stands twice in the plan", "each once", shown(name))
    pairs = plan.provenance.environment, plan.provenance.numerics
    if any(list(found) != sorted(dict(found).items()) for found in pairs):
        yield _error("CAD5501", "the provenance of the plan is not sorted", "sorted names, each once", "another order")


def _bad_leaf_forms(plan: Plan) -> Iterator[PlanError]:
    for number, form in enumerate(plan.forms):
        if isinstance(form, TensorForm) and not 0 <= form.slot < len(plan.leaves):
            expected = f"a slot from 0 to {len(plan.leaves) - 1}"
            yield _error("CAD5502", "a form of a leaf lies in no slot", expected, str(form.slot), f"form {number}")
        yield from _bad_form(form, f"form {number}")


def _bad_form(form: Form, at: str) -> Iterator[PlanError]:
    if isinstance(form, TensorForm) and not is_shape(form.sizes, form.strides):
        expected, got = "as many strides as sizes, fewer than 2^63 elements", f"{form.sizes} strides {form.strides}"
        yield _error("CAD5502", "a form has no shape", expected, shown(got), at)
    if isinstance(form, Literal) and not LITERALS[form.kind].fullmatch(form.text):
        expected = f"a text of kind {form.kind}"
        yield _error("CAD5502", "a form is a literal with the wrong text", expected, shown(form.text), at)


# Bytes: every blob that is named is there, has the digest it is named by, and the size.


def _bad_bytes(plan: Plan, digests: Sequence[str]) -> Iterator[PlanError]:
    for weight in plan.weights:
        if weight.blob is not None:
            size, at = tensor_bytes(weight.dtype, weight.sizes), f"weight {shown(weight.name)}"
            yield from _bad_blob(plan, digests, weight.blob, size, weight.sha256, at)
    if plan.weights_file is None and any(weight.blob is None for weight in plan.weights):
        yield _error("CAD5503", "weights are neither in the plan nor in a file", "a weights file", "none")
    if plan.weights_file is not None and plan.weights_file.strip("./\\") == "":
        yield _error("CAD5503", "the name of the weights file is none", "a file name", shown(plan.weights_file))
    for constant in plan.constants:
        at = f"constant {constant.sha256[:16]}"
        yield from _bad_blob(plan, digests, constant.blob, constant.size_bytes, constant.sha256, at)
    for number, image in enumerate(plan.cuda.images if plan.cuda is not None else ()):
        yield from _bad_blob(plan, digests, image.blob, None, image.sha256, f"image {number}")


def tensor_bytes(dtype: str, sizes: Sequence[int]) -> int:
    """Return the size of a contiguous tensor."""
    return math.prod(sizes) * ITEM_BYTES[dtype]


def _bad_blob(
    plan: Plan, digests: Sequence[str], blob: int, size_bytes: int | None, sha256: str, at: str
) -> Iterator[PlanError]:
    if not 0 <= blob < len(plan.blobs):
        yield _error("CAD5503", "a blob is not there", f"0 to {len(plan.blobs) - 1}", str(blob), at)
    elif size_bytes is not None and len(plan.blobs[blob]) != size_bytes:
        got = f"{len(plan.blobs[blob])} bytes in blob {blob}"
        yield _error("CAD5503", "a blob has another size", f"{size_bytes} bytes", got, at)
    elif digests[blob] != sha256:
        expected, got = f"sha256 {sha256[:16]}...", f"sha256 {digests[blob][:16]}..."
        yield _error("CAD5503", "a blob has another content", expected, got, at)


# Captures: a key, a tape and what it leaves behind fit one another.


def _bad_capture(plan: Plan, number: int, capture: Capture, paths: Sequence[str]) -> Iterator[PlanError]:
    at = f"capture {number}"
    if not 0 <= capture.tape < len(plan.tapes):
        yield _error("CAD5504", "a tape is not there", f"0 to {len(plan.tapes) - 1}", str(capture.tape), at)
        return
    for what, pairs in (("state", capture.key.state), ("writes", capture.writes)):
        yield from _bad_pairs(plan, what, pairs, at)
    tape, key = plan.tapes[capture.tape], capture.key
    if tape.stage != key.stage:
        yield _error("CAD5505", "a tape is of another stage", shown(key.stage), shown(tape.stage), at)
    counts = (len(key.inputs), len(capture.input_offsets), len(capture.outputs), len(capture.output_offsets))
    wanted = (len(tape.inputs), len(tape.inputs), len(tape.outputs), len(tape.outputs))
    if counts != wanted:
        what = "a capture has other inputs or outputs than its tape"
        yield _error("CAD5505", what, f"{wanted[0]} inputs, {wanted[2]} outputs", shown(counts), at)
        return
    for form in (*key.inputs, *capture.outputs):
        yield from _bad_form(form, at)
        if isinstance(form, TensorForm) and form.slot != -1:
            yield _error("CAD5502", "an input or output lies in a slot of the state", "slot -1", str(form.slot), at)
    yield from _bad_interface("input", tape.inputs, key.inputs, at)
    yield from _bad_interface("output", tape.outputs, capture.outputs, at)
    yield from _bad_state(plan, capture, tape, paths, at)


def _bad_pairs(plan: Plan, what: str, pairs: Sequence[tuple[int, int]], at: str) -> Iterator[PlanError]:
    leaves = [leaf for leaf, _ in pairs]
    inside = all(0 <= leaf < len(plan.leaves) and 0 <= form < len(plan.forms) for leaf, form in pairs)
    if leaves != sorted(set(leaves)) or not inside:
        expected = "leaves and forms of the plan, sorted by leaf, each once"
        yield _error("CAD5504", f"the {what} of a capture makes no sense", expected, shown(pairs), at)


def _bad_state(plan: Plan, capture: Capture, tape: Tape, paths: Sequence[str], at: str) -> Iterator[PlanError]:
    for kind, rows, pairs in (
        ("leaf", tape.state_in, capture.key.state),
        ("new leaf", tape.state_out, capture.writes),
    ):
        inside = [(leaf, form) for leaf, form in pairs if leaf < len(paths) and form < len(plan.forms)]
        forms = {paths[leaf]: plan.forms[form] for leaf, form in inside}
        known = [row for row in rows if row.name in forms]
        if len(known) != len(rows) or len(rows) != len(forms):
            what, got = f"a tape has other leaves than its capture ({kind})", ", ".join(row.name for row in rows)
            yield _error("CAD5505", what, shown(", ".join(forms) or "none"), shown(got or "none"), at)
        yield from _bad_interface(kind, known, [forms[row.name] for row in known], at)


def _bad_interface(kind: str, rows: Sequence[Binding], forms: Sequence[Form], at: str) -> Iterator[PlanError]:
    """Compare what a tape binds with the forms of its capture. Where bytes come in, strides count as well; what goes
    out is copied element by element."""
    for row, form in zip(rows, forms, strict=True):
        value = row.value
        if isinstance(value, Literal) or isinstance(form, Literal):
            same = value == form
        else:
            same = (value.dtype, value.sizes) == (form.dtype, form.sizes)
            if kind in {"input", "leaf"}:
                same = same and (value.strides, value.offset) == (form.strides, form.offset)
        if not same:
            what = f"{kind} {shown(row.name)} of a tape is not what its capture says"
            yield _error("CAD5506", what, shown(_text(form)), shown(_text(value)), at)


def _text(value: View | Form) -> str:
    if isinstance(value, Literal):
        return f"{value.kind} {value.text}".strip()
    return f"{value.dtype}{list(value.sizes)} strides {list(value.strides)} offset {value.offset}"
