"""What Prometheus is told. Labels come from the plan alone, so that no client can make new ones."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cadence_runtime.live import Executor, Report

LATENESS_S = (-1, -0.3, -0.1, -0.03, -0.01, -0.003, 0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
TOOK_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)


class Metrics(Collector):
    """Counts of pushes, and at each scrape what the executor says of itself, once there is one."""

    def __init__(self, executor: Callable[[], Executor | None]) -> None:
        self._executor = executor
        self._registry = CollectorRegistry()
        key = ("event", "shapes")
        self._pushes = Counter("cadence_pushes", "Pushes that were done.", key, registry=self._registry)
        self._failed = Counter(
            "cadence_failed_pushes", "Pushes that were not done.", ("code",), registry=self._registry
        )
        self._lateness = Histogram(
            "cadence_lateness_seconds",
            "Seconds from the deadline of a push to its end; negative where it was early.",
            key,
            buckets=LATENESS_S,
            registry=self._registry,
        )
        self._took = Histogram(
            "cadence_push_seconds",
            "Seconds that pushes took on their lane.",
            key,
            buckets=TOOK_S,
            registry=self._registry,
        )
        self._registry.register(self)

    def observe(self, report: Report) -> None:
        """Count a push."""
        if report.error:
            self._failed.labels(report.error).inc()
            return
        self._pushes.labels(report.event, report.shapes).inc()
        self._lateness.labels(report.event, report.shapes).observe(report.lateness_s)
        self._took.labels(report.event, report.shapes).observe(report.took_s)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        executor = self._executor()
        if executor is None:
            return
        yield GaugeMetricFamily("cadence_sessions", "Sessions that are open.", len(executor.sessions))
        yield GaugeMetricFamily("cadence_lanes", "Lanes.", executor.lanes)
        bound = None if executor.capacity is None else executor.capacity.sessions
        if bound is not None:
            yield GaugeMetricFamily("cadence_capacity_sessions", "Sessions that the plan carries.", bound)
        yield CounterMetricFamily("cadence_switches", "Pushes that found another session's state.", executor.switches)
        yield _bytes(executor.bytes())
        residency = executor.residency()
        if residency:
            yield CounterMetricFamily(
                "cadence_residency_misses", "Executables that a push found missing.", residency["misses"]
            )
            yield CounterMetricFamily(
                "cadence_residency_waits", "Pushes that waited for executables.", residency["waits"]
            )


def _bytes(sizes: Mapping[str, int]) -> GaugeMetricFamily:
    found = GaugeMetricFamily("cadence_bytes", "Bytes on the device.", labels=("part",))
    for part, size in sizes.items():
        found.add_metric([part], size)
    return found
