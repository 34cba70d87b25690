"""The section `graphs`, by the page's "Tables"."""

from typing import Any

from . import templates
from .refused import need, refuse
from .tables import Pool, Words

Data = dict[str, Any]
FILL = ("pitch", "value", "element_bytes", "width", "height")
NONE, PLAIN, LAUNCHES, TEMPLATES = range(4)


class Reader:
    """Reads the section front to back."""

    def __init__(self, words: Words, form: int) -> None:
        self.words = words
        self.head: Data = {"base": words.word(), "compute_capability": words.some(2), "driver": words.word()}
        self.strings = Pool(self.many(words.text))
        need(all(len(string) <= 1 << 20 for string in self.strings.members), "strings have at most 2^20 bytes")
        self.images = self.many(self.image)
        self.globals = self.many(self.variable)
        self.kernels = self.many(self.kernel)
        self.snapshots = self.many(self.snapshot)
        self.graphs = templates.Reader(words, self.name).graphs if form == TEMPLATES else self.full_graphs()
        self.launches = [] if form == PLAIN else self.many(self.launch)
        need(form != LAUNCHES or bool(self.launches), "launches that are there")
        plain = [{"graph": number, "before": [], "after": []} for number in range(len(self.graphs))]
        need(not self.launches or self.launches != plain, "launches that say something")
        words.end()
        self.strings.end()

    def many(self, read: Any) -> list[Any]:
        return [read() for _ in range(self.words.count())]

    def string(self) -> bytes:
        return bytes(self.strings.use(self.words.word()))

    def name(self) -> str:
        return self.text(self.words.word())

    def text(self, number: int) -> str:
        try:
            return str(self.strings.use(number), "utf-8")
        except UnicodeDecodeError:
            refuse("names are UTF-8")

    def pairs(self) -> list[list[int]]:
        return [self.words.some(2) for _ in range(self.words.count())]

    def image(self) -> Data:
        return {"sha256": self.name(), "library": self.name(), "blob": self.words.word()}

    def variable(self) -> Data:
        image, name, data = self.words.word(), self.name(), self.string()
        return {"image": image, "name": name, "data": data, "pointers": self.pairs()}

    def kernel(self) -> Data:
        image, name, params = self.words.word(), self.name(), self.pairs()
        return {
            "image": image,
            "name": name,
            "param_offsets": [offset for offset, _ in params],
            "param_sizes": [size for _, size in params],
            "attributes": [[self.words.word(), self.words.word(-(1 << 63))] for _ in range(self.words.count())],
        }

    def snapshot(self) -> Data:
        name, offset, size, blob = self.name(), self.words.word(), self.words.word(), self.words.word()
        return {"name": name, "offset": offset, "size_bytes": size, "blob": blob - 1 if blob else None}

    def full_graphs(self) -> list[Data]:
        """Return the graphs, each of which lists nodes of a pool."""
        self.nodes = Pool(self.many(self.node))
        graphs = self.many(self.graph)
        self.nodes.end()
        return graphs

    def node(self) -> Data:
        kind = self.words.word(0, 3)
        if kind:
            names = templates.COPY if kind == 2 else FILL
            return dict(zip(names, self.words.some(len(names)), strict=True))
        return {
            "kernel": self.words.word(),
            "grid": self.words.some(3),
            "block": self.words.some(3),
            "shared_bytes": self.words.word(),
            "params": self.words.word(),
            "attributes": [[self.words.word(), self.words.word()] for _ in range(self.words.count())],
        }

    def listed(self, number: int, op: int) -> Data:
        """Return a node of a graph; its strings are first used here, its attributes before its parameters."""
        node = {**self.nodes.use(number), "op": op}
        if "kernel" in node:
            node["attributes"] = [[each, bytes(self.strings.use(value))] for each, value in node["attributes"]]
            node["params"] = bytes(self.strings.use(node["params"]))
        return node

    def graph(self) -> Data:
        offset, step = self.words.word(), self.words.word()
        need(offset > 0 or step == 0, "no generator, no step")
        ops = [self.words.word() for _ in range(self.words.count())]
        nodes = [self.listed(*self.words.some(2)) for _ in range(self.words.count())]
        relocations = [
            dict(zip(("node", "word", "offset"), self.words.some(3), strict=True)) for _ in range(self.words.count())
        ]
        edges = [self.words.some(2) + self.words.some(3, 0, 256) for _ in range(self.words.count())]
        return {
            "nodes": nodes,
            "relocations": relocations,
            "edges": [{"before": edge[0], "after": edge[1], "data": edge[2:]} for edge in edges],
            "ops": [self.text(number) for number in ops],
            "philox": [offset - 1, step] if offset else None,
        }

    def launch(self) -> Data:
        return {"graph": self.words.word(), "before": self.moves(), "after": self.moves()}

    def moves(self) -> list[Data]:
        names = ("destination", "source", "size_bytes")
        return [dict(zip(names, self.words.some(3), strict=True)) for _ in range(self.words.count())]


def oldest(data: bytes) -> int:
    """Return the oldest minor version that can read the section."""
    return {LAUNCHES: 1, TEMPLATES: 2}.get(Words(data).word(), 0)


def decode(data: bytes) -> Data | None:
    """Return the CUDA part, or None for a plan without."""
    words = Words(data)
    form = words.word(NONE, TEMPLATES + 1)
    if form == NONE:
        words.end()
        return None
    reader = Reader(words, form)
    return {
        **reader.head,
        "images": reader.images,
        "globals": reader.globals,
        "kernels": reader.kernels,
        "graphs": reader.graphs,
        "snapshots": reader.snapshots,
        "launches": reader.launches,
    }
