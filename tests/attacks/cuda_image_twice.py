"""One kernel image under two numbers: a few bytes for each time that it is loaded."""

from patching import attack, cuda, golden

MESSAGE = """\
CAD5501: a kernel image stands twice in the plan
  expected: each once
  got:      `ea394de789e093a3ac9e00bfae6618969190880b9357c545eabcf1384...`"""


def hostile() -> bytes:
    images = golden("cuda").cuda.images
    return cuda(images=(*images, images[0]))


if __name__ == "__main__":
    attack(hostile)
