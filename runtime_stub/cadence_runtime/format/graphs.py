"""The CUDA part as words.

    head        0 and nothing else for a plan without a CUDA part; 1, or 2 with launches, for graphs as lists of nodes
                (`graph_pool.py`); 3 for graphs by template (`graph_families.py`); then base, compute capability (2),
                driver
    strings     count, then each: length in bytes, bytes padded with zeros to whole words
    images      count, then each: digest, library (strings), blob
    globals     count, then each: image, name, data (strings), number of pointers and (place, arena offset) of each
    kernels     count, then each: image, name, number of params and (offset, size) of each, number of attributes and
                (attribute, value) of each
    snapshots   count, then each: name, arena offset, size, blob + 1 or 0
    graphs      in one of two ways
    launches    only behind a 2 or 3; count, then each: graph, number of moves before it and (destination, source, size)
                of each, number of moves after it and the same of each

What compilers write is form 3. A part keeps the form that it was read in.
"""

from cadence_runtime.format.cuda import CudaPart
from cadence_runtime.format.graph_families import FamilyReader, family_words
from cadence_runtime.format.graph_pool import PoolReader, pool_words
from cadence_runtime.format.graph_words import MAX, PartReader, Strings, launch_words, part_words
from cadence_runtime.format.templates import Graphs
from cadence_runtime.format.words import Words, pack

SECTION = "graphs"
NO_PART, PLAIN, WITH_LAUNCHES, BY_TEMPLATE = range(4)


def encode_graphs(part: CudaPart | None) -> bytes:
    """Return the bytes of the section."""
    if part is None:
        return pack([NO_PART])
    strings = Strings()
    around = part_words(part, strings)
    launches = launch_words(part.launches) if part.launches or isinstance(part.graphs, Graphs) else []
    if isinstance(part.graphs, Graphs):
        form, graphs = BY_TEMPLATE, family_words(part.graphs, strings)
    else:
        form, graphs = WITH_LAUNCHES if part.launches else PLAIN, pool_words(part.graphs, strings)
    head = (form, part.base, *part.compute_capability, part.driver)
    return pack([*head, *strings.words(), *around, *graphs, *launches])


def decode_graphs(data: bytes, blobs: int) -> CudaPart | None:
    """Read the section of a plan with so many blobs. Raises PlanError CAD5201 to CAD5205, or CAD5709."""
    words = Words(SECTION, data)
    form = words.take(0, 4, "a form")
    if form == NO_PART:
        words.finish()
        return None
    base = words.take(0, MAX, "an address")
    capability = (words.take(1, 256, "a compute capability"), words.take(0, 256, "a compute capability"))
    driver = words.take(0, MAX, "a driver version")
    around = PartReader(words, blobs)
    reader = FamilyReader(around) if form == BY_TEMPLATE else PoolReader(around)
    launches = () if form == PLAIN else around.launches(len(reader.graphs))
    if form == WITH_LAUNCHES and not launches:
        raise words.out_of_range("launches, or form 1", 1, 2**63, 0)
    words.finish()
    reader.require_one_form()
    return CudaPart(
        base,
        capability,
        driver,
        around.images,
        around.globals,
        around.kernels,
        reader.graphs,
        around.snapshots,
        launches,
    )
