"""The bill of materials of a plan, as a CycloneDX 1.6 document: what of others is inside the file.

    plan
      model            embedded weights and folded constants
      cuBLAS 13.1      kernel images, each a file by its sha256
      library memory   bytes that libraries had put on the device

Everything that a plan embeds is listed. Whose a kernel image is was read off the names of its kernels, and versions are
those that the plan recorded when it was compiled; what is not known is said to be so, never guessed. The same plan
gives the same document: no date, no serial number, no path.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cadence_runtime.format.cuda import KernelImage
from cadence_runtime.format.file import MAJOR
from cadence_runtime.format.plan import Plan, minor_of
from cadence_runtime.format.reader import PlanFile, read_plan_file
from cadence_runtime.zstd import decompress

Component = dict[str, Any]
PLAN = "plan"


@dataclass(frozen=True, slots=True)
class Library:
    """Where kernels come from: whose it is, its licence in CycloneDX's form, and the name in a plan's provenance under
    which its version stands."""

    supplier: str
    licence: dict[str, str]
    version: str | None


_CUDA = {"name": "NVIDIA CUDA Toolkit End User License Agreement", "url": "https://docs.nvidia.com/cuda/eula/"}
_CUDNN = {
    "name": "NVIDIA cuDNN Software License Agreement",
    "url": "https://docs.nvidia.com/deeplearning/cudnn/latest/reference/eula.html",
}
LIBRARIES = {
    "CUTLASS": Library("NVIDIA", {"id": "BSD-3-Clause"}, None),
    "PyTorch": Library("PyTorch", {"id": "BSD-3-Clause"}, "torch"),
    "Triton": Library("Triton", {"id": "MIT"}, "triton"),
    "cuBLAS": Library("NVIDIA", _CUDA, "cublas"),
    "cuBLASLt": Library("NVIDIA", _CUDA, "cublas"),
    "cuDNN": Library("NVIDIA", _CUDNN, "cudnn"),
    "cuFFT": Library("NVIDIA", _CUDA, "cufft"),
}
"""The libraries that the compiler tells apart (`cadencec.targets.cuda.libraries`)."""


def bill_of_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and validate a plan file, blobs and all, and return its bill. Raises UsageError CAD92xx or PlanError."""
    return bill(read_plan_file(path, decompress=decompress, hashed=True))


def bill(file: PlanFile) -> dict[str, Any]:
    """Return the bill of a plan that was read with its digest."""
    plan = file.plan
    tool = {"type": "application", "name": "cadencec", "version": plan.provenance.compiler}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": {"components": [tool]}, "component": _plan(file)},
        "components": [*_model(plan), *_libraries(plan), *_memory(plan)],
        "compositions": [{"aggregate": "complete", "assemblies": [PLAN]}],
    }


def _plan(file: PlanFile) -> Component:
    plan, external = file.plan, [weight for weight in file.plan.weights if weight.blob is None]
    code = "kernel images" if plan.cuda is not None else "none: the ops of tapes are run by the torch of the machine"
    return {
        "type": "file",
        "bom-ref": PLAN,
        "name": f"{plan.provenance.model}.{plan.target}.plan",
        "hashes": _hashes(str(file.sha256)),
        "properties": _properties(
            format=f"{MAJOR}.{minor_of(plan)}",
            spec_sha256=plan.provenance.spec_sha256,
            embedded_code=code,
            weights_outside=f"{len(external)} tensors in {plan.weights_file}" if external else "none",
        ),
    }


def _model(plan: Plan) -> Iterator[Component]:
    """Yield the model whose numbers the plan embeds, if any."""
    weights = {weight.blob for weight in plan.weights if weight.blob is not None}
    blobs = weights | {constant.blob for constant in plan.constants}
    size_bytes = sum(len(plan.blobs[blob]) for blob in blobs)
    if size_bytes:
        yield {
            "type": "machine-learning-model",
            "bom-ref": "model",
            "name": plan.provenance.model,
            "properties": _properties(
                embedded_bytes=str(size_bytes),
                embedded_tensors=str(len(weights)),
                entry=plan.provenance.entry,
                not_known="version, licence",
            ),
        }


def _libraries(plan: Plan) -> Iterator[Component]:
    images = plan.cuda.images if plan.cuda is not None else ()
    for name in sorted({image.library for image in images}):
        yield _library(plan, name, [image for image in images if image.library == name])


def _library(plan: Plan, name: str, images: Sequence[KernelImage]) -> Component:
    known = LIBRARIES.get(name)
    version = _version(plan, known)
    unknown = [what for what, value in (("library", known), ("version", version), ("licence", known)) if value is None]
    found: Component = {"type": "library", "bom-ref": f"library/{name}", "name": name}
    if known is not None:
        found |= {"supplier": {"name": known.supplier}, "licenses": [{"license": known.licence}]}
    if version is not None:
        found["version"] = version
    found["properties"] = _properties(
        identified_by="the names of its kernels", **({"not_known": ", ".join(unknown)} if unknown else {})
    )
    found["components"] = [_image(plan, image) for image in sorted(images, key=lambda image: image.sha256)]
    return found


def _version(plan: Plan, library: Library | None) -> str | None:
    if library is None or library.version is None:
        return None
    recorded = dict(plan.provenance.environment).get(library.version)
    if library.version == "cudnn" and recorded is not None and recorded.isdigit():
        number = int(recorded)  # cuDNN counts in one number: 91900 is 9.19.0
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return recorded


def _image(plan: Plan, image: KernelImage) -> Component:
    return {
        "type": "file",
        "bom-ref": f"image/{image.sha256}",
        "name": f"{image.sha256[:16]}.cubin",
        "hashes": _hashes(image.sha256),
        "properties": _properties(embedded_bytes=str(len(plan.blobs[image.blob]))),
    }


def _memory(plan: Plan) -> Iterator[Component]:
    """Yield what libraries had put on the device and the plan keeps a copy of."""
    snapshots = plan.cuda.snapshots if plan.cuda is not None else ()
    kept = [snapshot for snapshot in snapshots if snapshot.blob is not None]
    if kept:
        yield {
            "type": "data",
            "bom-ref": "library-memory",
            "name": "library memory",
            "properties": _properties(
                buffers=str(len(kept)),
                embedded_bytes=str(sum(snapshot.size_bytes for snapshot in kept)),
                not_known="library, version, licence",
            ),
        }


def _hashes(sha256: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": sha256}]


def _properties(**values: str) -> list[dict[str, str]]:
    return [{"name": f"cadencec:{name.replace('_', '-')}", "value": value} for name, value in sorted(values.items())]
