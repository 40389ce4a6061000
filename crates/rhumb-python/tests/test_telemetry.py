"""What daemons push to a collector, read as OpenTelemetry's own library reads it. It is here since
that library is one of Python's; the Rust half is tried by its crate."""

from __future__ import annotations

import http.server
import json
import queue
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import PATIENCE_S, Network, Running, environment

proto = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
json_format = pytest.importorskip("google.protobuf.json_format")


class Collector:
    """A server that takes what is pushed, or answers as it is told to."""

    def __init__(self) -> None:
        self.taken: queue.Queue[tuple[str, dict[str, str], bytes]] = queue.Queue()
        self.status = 200
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.taken.put((self.path, dict(self.headers), body))
                self.send_response(collector.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def next(self) -> tuple[str, dict[str, str], bytes]:
        return self.taken.get(timeout=PATIENCE_S)

    def end(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.end()


def rib(network: Network, folder: Path, settings: str) -> tuple[Running, dict[str, Any]]:
    """A RIB that pushes each second, and its ready line."""
    (folder / "rib.toml").write_text("[otlp]\nevery_s = 1\n" + settings)
    network.run("keygen", "--role", "rib", "--out", str(folder / "rib.key"))
    running = Running(
        network.binary, "--json", "--with-parent", "--config", str(folder / "rib.toml"), "rib",
        "--key", str(folder / "rib.key"), "--store", str(folder / "rib.redb"),
        "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", folder=network.folder,
    )
    ready: dict[str, Any] = json.loads(running.line())
    return running, ready


def scraped(ready: dict[str, Any]) -> dict[str, str]:
    """The kinds of all metrics, as Prometheus is told."""
    with urllib.request.urlopen(f"http://{ready['admin']}/metrics") as page:
        lines = page.read().decode().splitlines()
    return {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}


def test_it_is_the_protocol_and_what_prometheus_gets(
    network: Network, collector: Collector, tmp_path: Path
) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer secret\n")
    headers.chmod(0o600)
    running, ready = rib(
        network, tmp_path, f'endpoint = "{collector.url}"\nheaders = "{headers}"\ninstance = "fra1"\n'
    )
    try:
        path, head, body = collector.next()
        assert path == "/v1/metrics" and head["Content-Type"] == "application/json"
        assert head["Authorization"] == "Bearer secret"
        # Unknown fields and wrong types are errors.
        request = json_format.Parse(body, proto.ExportMetricsServiceRequest())
        (resource,) = request.resource_metrics
        told = {it.key: it.value.string_value for it in resource.resource.attributes}
        assert told["service.name"] == "rhumb-rib" and told["service.instance.id"] == "fra1"
        (scope,) = resource.scope_metrics
        kinds = {it.name: it.WhichOneof("data") for it in scope.metrics}
        as_counted = {"counter": "sum", "gauge": "gauge", "histogram": "histogram"}
        assert kinds == {name: as_counted[kind] for name, kind in scraped(ready).items()}
        now_ns = time.time_ns()
        for metric in scope.metrics:
            data = getattr(metric, metric.WhichOneof("data"))
            for point in data.data_points:
                assert 0 < point.start_time_unix_nano <= point.time_unix_nano
                assert abs(now_ns - point.time_unix_nano) < 3_600 * 10**9
            if metric.HasField("sum"):
                assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2
            for point in metric.histogram.data_points:
                assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
                assert sum(point.bucket_counts) == point.count
        # It names nobody, itself included.
        assert ready["name"].encode() not in body and ready["name"][:10].encode() not in body
    finally:
        running.end()


def test_a_collector_that_refuses_is_tried_on_and_nothing_waits_for_it(
    network: Network, collector: Collector, tmp_path: Path
) -> None:
    collector.status = 503
    running, ready = rib(network, tmp_path, f'endpoint = "{collector.url}"\n')
    try:
        first = json.loads(collector.next()[2])
        collector.status = 200
        second = json.loads(collector.next()[2])

        def start_of(request: Any) -> str:
            metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
            start: str = metrics[0]["gauge" if "gauge" in metrics[0] else "sum"]["dataPoints"][0][
                "startTimeUnixNano"
            ]
            return start

        # Counts go on from where they were: what was refused is in what comes next.
        assert start_of(first) == start_of(second)
        collector.next()
        with urllib.request.urlopen(f"http://{ready['admin']}/metrics") as page:
            text = page.read().decode()
        assert 'rhumb_otlp_pushes_total{result="failed"} 1' in text, text
    finally:
        running.end()


def test_a_token_does_not_travel_in_plain_text(network: Network, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer secret\n")
    network.run("keygen", "--role", "rib", "--out", str(tmp_path / "rib.key"))
    for mode, endpoint, problem in (
        (0o644, "https://collector.example", "chmod 600"),
        (0o600, "http://192.0.2.1:4318", "plain text"),
        (0o600, "http://user:secret@192.0.2.1", "give http://HOST:PORT"),
    ):
        headers.chmod(mode)
        settings = tmp_path / "rib.toml"
        settings.write_text(f'[otlp]\nendpoint = "{endpoint}"\nheaders = "{headers}"\n')
        refused = subprocess.run(
            [
                network.binary, "--config", str(settings), "rib", "--key", str(tmp_path / "rib.key"),
                "--store", str(tmp_path / "rib.redb"), "--listen", "127.0.0.1:0",
            ],
            env=environment(network.folder), timeout=PATIENCE_S, capture_output=True, text=True,
        )
        assert refused.returncode == 2, refused
        assert problem in refused.stderr and "secret" not in refused.stderr.replace("a secret", "")
