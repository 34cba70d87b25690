"""A launch brings more bytes than its kernel takes."""

from patching import attack, node, step_graph

MESSAGE = """\
CAD5703: a launch has other parameters than kernel `_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax...`
  expected: 45 bytes
  got:      53 bytes
  at:       graph 1, node 5"""


def hostile() -> bytes:
    return node(5, params=step_graph().nodes[5].params + bytes(8))


if __name__ == "__main__":
    attack(hostile)
