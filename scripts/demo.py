"""`make demo`: compile Silero VAD, replay a recording in a fresh process, and compare every step with the stock model.

    this process              a process that knows only cadence_runtime           this process again
    cadencec compile  ->      load the plan, push the recording's chunks    ->    the released model on the same chunks

Exit code 3 when one bit of one step differs.
"""

import subprocess
import sys
import time
import wave
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "specs" / "silero_vad.yaml"
RECORDING = ROOT / "examples" / "speech.wav"
FOLDER = ROOT / ".cache" / "demo"

RATE_HZ, CHUNK_SAMPLES = 16_000, 512
COMPILER_AND_MODEL = {"cadencec", "silero_vad"}

Array = np.ndarray[Any, np.dtype[Any]]


def main() -> int:
    """Run the demo; return its exit code."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    plan, speech = FOLDER / "silero-vad.cpu.plan", FOLDER / "speech.npy"
    show("compile")
    run("-m", "cadencec", "compile", str(SPEC), "-o", str(plan))
    show("replay in a fresh process, without the compiler and without the model")
    run(__file__, "--replay", str(plan), str(RECORDING), str(speech))
    show("compare with the released model")
    chunks, replayed = read_chunks(RECORDING), np.load(speech)
    spans = speech_spans(replayed)
    for span in spans:
        print(f"speech from {span['start']:6.2f} s to {span['end']:6.2f} s")
    return verdict(replayed, stock_speech(chunks))


def replay(plan_file: str, recording: str, target: str) -> int:
    """Replay a recording through a plan and save what comes out, (steps, 1, 1) float32."""
    from cadence_runtime import load

    chunks = read_chunks(Path(recording))
    started = time.perf_counter()
    with load(plan_file) as plan, plan.session() as session:
        speech = [np.asarray(session.push("chunk", x=chunk)["speech"]) for chunk in chunks]
    foreign = COMPILER_AND_MODEL & sys.modules.keys()
    assert not foreign, f"the replay imported {', '.join(sorted(foreign))}"  # noqa: S101
    np.save(target, np.stack(speech))
    print(f"{len(chunks)} steps of {1000 * CHUNK_SAMPLES // RATE_HZ} ms in {time.perf_counter() - started:.2f} s")
    return 0


def read_chunks(recording: Path) -> list[Array]:
    """Return the recording in chunks of (1, 512) float32; the last one is filled with zeros."""
    with wave.open(str(recording), "rb") as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / np.float32(32768)
    padded = np.pad(samples, (0, -len(samples) % CHUNK_SAMPLES))
    return list(padded.reshape(-1, 1, CHUNK_SAMPLES))


def stock_speech(chunks: list[Array]) -> Array:
    """Return what the released model says of each chunk, called as its users call it."""
    import torch
    from silero_vad import load_silero_vad

    model = load_silero_vad()
    with torch.no_grad():
        return np.stack([model(torch.from_numpy(chunk), RATE_HZ).numpy() for chunk in chunks])


def speech_spans(speech: Array) -> list[dict[str, float]]:
    """Return where the released package finds speech in these probabilities, in seconds."""
    from silero_vad import get_speech_timestamps_from_probs

    spans: list[dict[str, float]] = get_speech_timestamps_from_probs(
        speech.ravel().tolist(), return_seconds=True, time_resolution=2
    )
    return spans


def verdict(replayed: Array, stock: Array) -> int:
    """Print how many steps were compared and whether all of their bits are equal; return the exit code."""
    import torch

    ours, theirs = (torch.from_numpy(array).contiguous().view(torch.int32) for array in (replayed, stock))
    if torch.equal(ours, theirs):
        print(f"{len(stock)} steps compared: bit-identical to the stock model")
        return 0
    both = min(len(ours), len(theirs))
    differs = (ours[:both] != theirs[:both]).flatten(1).any(1)
    first = int(differs.int().argmax()) if differs.any() else both
    print(
        f"{len(stock)} steps compared: differs from the stock model from step {first} on ({int(differs.sum())} differ)"
    )
    return 3


def show(text: str) -> None:
    """Print what comes next."""
    print(f"-- {text}", flush=True)


def run(*args: str) -> None:
    """Run Python in a process of its own; stop with its exit code when it fails."""
    done = subprocess.run([sys.executable, *args], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    raise SystemExit(replay(*sys.argv[2:]) if sys.argv[1:2] == ["--replay"] else main())
