"""The zstd codec of plan files, bounded: what a frame decodes to is known before a byte of it is allocated."""

import zstandard

LEVEL = 12
MAX_WINDOW_BYTES = 1 << 27


def compress(data: bytes) -> bytes:
    """Return one frame that says the size of its content."""
    return zstandard.ZstdCompressor(level=LEVEL, write_content_size=True, write_checksum=False).compress(data)


def decompress(data: bytes, size_bytes: int) -> bytes:
    """Return the content of one frame of exactly so many bytes; raises ValueError or ZstdError otherwise."""
    # The library allocates what the frame says, whatever limit it is given.
    said = zstandard.get_frame_parameters(data).content_size
    if said != size_bytes:
        raise ValueError(f"a frame of {said} bytes")
    decoder = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    return decoder.decompress(data, max_output_size=size_bytes, read_across_frames=False, allow_extra_data=False)
