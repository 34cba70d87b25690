"""The region dependency graph: reads, writes, rates, and what a change reaches."""

from dataclasses import replace

from cadence_runtime.host.program import Program, StageInput
from cadencec.timeline.graph import affected_by, dependencies, handed_on
from tests.host.programs import minicpm


def chained() -> Program:
    """The live rule with the tensors that its stages hand on."""
    made = minicpm()
    encode, denoise, vocode = made.stages
    mu, mel = StageInput("mu", "float32"), StageInput("mel", "float32")
    stages = (
        replace(encode, outputs=("mu",)),
        replace(denoise, inputs=(mu,), outputs=("mel",)),
        replace(vocode, inputs=(mel,)),
    )
    return replace(made, stages=stages)


def test_edges_carry_rates() -> None:
    graph = dependencies(minicpm())
    data = graph.get_edge_data(("region", "hift.source"), ("stage", "vocode"))
    assert [(edge["kind"], edge["rate_hz"]) for edge in data.values()] == [("read", 24000)]
    assert graph.nodes["region", "estimator.att"] == {"rate_hz": 50, "retention": "window"}


def test_tensors_are_handed_from_stage_to_stage() -> None:
    assert handed_on(chained()) == (("encode", "denoise", "mu"), ("denoise", "vocode", "mel"))


def test_a_changed_region_reaches_what_is_computed_from_it() -> None:
    made = chained()
    tail = ("hift.mel", "hift.source", "hift.speech")
    assert affected_by(made, "conformer.att") == (("encode", "denoise", "vocode"), ("estimator.att", *tail))
    assert affected_by(made, "hift.mel") == (("vocode",), ("hift.source", "hift.speech"))
