"""Live sessions on several GPUs or machines: Ray Serve places each session's WebSocket on a replica, where it stays.

    CADENCE_PLAN=silero-vad.cpu.plan serve run examples.ray_serve:app

Every replica has a plan of its own and counts as healthy once it is loaded and measured. Ray's proxy listens on
loopback, port 8000; the address of a stream is ws://127.0.0.1:8000/v1/stream. For a plan for cuda give a replica a GPU:
`ray_actor_options={"num_gpus": 1}`.
"""

import os

from ray import serve

from cadence_serve.app import hosted
from cadence_serve.settings import Settings


def build(plan: str, replicas: int) -> serve.Application:
    """Return an application of so many replicas of a plan."""

    @serve.deployment(num_replicas=replicas, max_ongoing_requests=64, ray_actor_options={"num_cpus": 1})
    @serve.ingress(lambda: hosted(Settings(plan, lanes=1, client_sessions=64)))
    class Sessions:
        """A server's application in each replica."""

    return Sessions.bind()  # type: ignore[no-any-return, attr-defined]


app = build(os.path.abspath(os.environ["CADENCE_PLAN"]), 2) if "CADENCE_PLAN" in os.environ else None
