"""The bill of materials: everything that a plan embeds, nothing guessed, in the form that CycloneDX asks for."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.plan import Plan
from cadence_runtime.format.reader import PlanFile, read_plan_file
from cadence_runtime.zstd import decompress
from cadencec.cli.app import app
from cadencec.inspect.bill import LIBRARIES, bill, bill_of_file
from cadencec.targets.cuda.libraries import MARKS

PLANS = Path(__file__).resolve().parents[2] / "plans"
CPU, CUDA = (next(PLANS.glob(f"growing-kv-cat.{target}*.plan")) for target in ("cpu", "cuda"))
TYPES = {"application", "library", "file", "machine-learning-model", "data"}
"""The types of CycloneDX 1.6 that are used here, of its thirteen."""


def components(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every component, those inside of others too."""
    rows = [document["metadata"]["component"], *document["components"]]
    while rows:
        row = rows.pop(0)
        yield row
        rows += row.get("components", [])


def properties(component: dict[str, Any]) -> dict[str, str]:
    return {row["name"].removeprefix("cadencec:"): row["value"] for row in component.get("properties", [])}


@pytest.mark.parametrize("path", [CPU, CUDA], ids=["cpu", "cuda"])
def test_what_the_schema_requires_is_there(path: Path) -> None:
    document = bill_of_file(path)
    assert (document["bomFormat"], document["specVersion"], document["version"]) == ("CycloneDX", "1.6", 1)
    found = list(components(document))
    assert all(row["name"] and row["type"] in TYPES for row in found)
    references = [row["bom-ref"] for row in found]
    assert len(set(references)) == len(references)
    assert all(set(entry) == {"alg", "content"} for row in found for entry in row.get("hashes", []))
    for row in found:
        for entry in row.get("licenses", []):
            assert entry.keys() == {"license"} and len(entry["license"].keys() & {"id", "name"}) == 1
    (composition,) = document["compositions"]
    assert composition["aggregate"] == "complete" and set(composition["assemblies"]) <= set(references)


@pytest.mark.parametrize("path", [CPU, CUDA], ids=["cpu", "cuda"])
def test_the_format_is_that_of_the_plan_and_not_of_its_reader(path: Path) -> None:
    assert properties(bill_of_file(path)["metadata"]["component"])["format"] == "1.0"


def test_every_byte_that_is_embedded_is_someones() -> None:
    plan = read_plan_file(CUDA, decompress=decompress).plan
    rows = [properties(row) for row in components(bill_of_file(CUDA))]
    assert sum(int(row.get("embedded-bytes", 0)) for row in rows) == sum(map(len, plan.blobs))


def test_images_stand_under_their_library_with_version_and_licence() -> None:
    document = bill_of_file(CUDA)
    libraries = {row["name"]: row for row in document["components"] if row["type"] == "library"}
    assert sorted(libraries) == ["PyTorch", "cuBLAS"]
    assert libraries["PyTorch"]["version"] == "2.11.0"
    assert libraries["PyTorch"]["licenses"] == [{"license": {"id": "BSD-3-Clause"}}]
    # A plan that was made before the version of cuBLAS was recorded does not know it, and says so.
    assert "version" not in libraries["cuBLAS"]
    assert properties(libraries["cuBLAS"])["not-known"] == "version"
    assert [len(row["components"]) for row in libraries.values()] == [3, 3]


def cuda_plan(library: str, **environment: str) -> PlanFile:
    """Return the golden plan with all its images from one library, compiled in another environment."""
    file = read_plan_file(CUDA, decompress=decompress, hashed=True)
    plan: Plan = file.plan
    part = plan.cuda
    assert isinstance(part, CudaPart)
    images = tuple(replace(image, library=library) for image in part.images)
    provenance = replace(plan.provenance, environment=tuple(sorted(environment.items())))
    return replace(file, plan=replace(plan, cuda=replace(part, images=images), provenance=provenance))


@pytest.mark.parametrize(
    ("library", "version"),
    [("cuBLASLt", "13.1.0.3"), ("cuDNN", "9.19.0"), ("Triton", "3.6.0"), ("cuFFT", None), ("CUTLASS", None)],
)
def test_versions_are_those_of_the_plan(library: str, version: str | None) -> None:
    document = bill(cuda_plan(library, cublas="13.1.0.3", cudnn="91900", triton="3.6.0"))
    (row,) = (row for row in document["components"] if row["type"] == "library")
    assert row.get("version") == version
    assert properties(row).get("not-known") == (None if version else "version")


def test_an_image_of_nobody_is_said_to_be() -> None:
    (row,) = (row for row in bill(cuda_plan("unknown"))["components"] if row["type"] == "library")
    assert (row["name"], properties(row)["not-known"]) == ("unknown", "library, version, licence")
    assert "licenses" not in row and "supplier" not in row


def test_every_library_that_the_compiler_tells_apart_has_a_licence() -> None:
    assert {library for _, library in MARKS} == set(LIBRARIES)


def test_a_plan_for_the_cpu_embeds_no_code() -> None:
    document = bill_of_file(CPU)
    assert properties(document["metadata"]["component"])["embedded-code"].startswith("none: ")
    assert [row["type"] for row in document["components"]] == ["machine-learning-model"]


def test_the_verb_prints_the_same_document_wherever_the_plan_lies(tmp_path: Path) -> None:
    copy = tmp_path / "renamed.plan"
    copy.write_bytes(CUDA.read_bytes())
    texts = [CliRunner().invoke(app, ["inspect", str(path), "--sbom"]).stdout for path in (CUDA, copy)]
    assert texts[0] == texts[1]
    assert json.loads(texts[0]) == bill_of_file(CUDA)


def test_a_damaged_plan_has_no_bill(tmp_path: Path) -> None:
    content = bytearray(CUDA.read_bytes())
    content[-1] ^= 1
    (tmp_path / "damaged.plan").write_bytes(content)
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "damaged.plan"), "--sbom"])
    assert (done.exit_code, done.stdout) == (3, "") and "CAD5007" in done.stderr
