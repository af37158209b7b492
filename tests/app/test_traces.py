"""Phases of Workloads become spans of a trace, which a collector gets as OTLP."""

import http.server
import itertools
import json
import queue
import threading

import pytest
from tests.e2e.conftest import start_server, stop_server

import pykueue
from pykueue.app import traces
from pykueue.kube.informer import Change


def workload(*true, false=(), reason="Succeeded"):
    minutes = {"QuotaReserved": 1, "Admitted": 2, "PodsReady": 3, "Evicted": 4, "Finished": 5}

    def condition(name, status):
        at = f"2026-01-01T00:0{minutes[name]}:00Z"
        return {"type": name, "status": status, "reason": reason, "message": reason, "lastTransitionTime": at}

    return {
        "metadata": {
            "name": "job-a",
            "namespace": "ml",
            "uid": "1-2-3",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"name": "a", "uid": "4"}],
        },
        "spec": {"queueName": "train"},
        "status": {
            "conditions": [condition(name, "True") for name in true] + [condition(name, "False") for name in false]
        },
    }


def minutes_of(span):
    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    return (start // 60_000_000_000 % 60, end // 60_000_000_000 % 60)


LIFE = [
    workload(),
    workload("QuotaReserved"),
    workload("QuotaReserved", "Admitted"),
    workload("QuotaReserved", "Admitted", "PodsReady"),
    workload("QuotaReserved", "Admitted", "PodsReady", "Finished"),
]


def test_each_phase_is_a_span_below_the_whole_life():
    steps = itertools.pairwise(LIFE)
    spans = [span for old, new in steps for span in traces.spans(Change(type="MODIFIED", object=new, old=old), 0)]
    assert [(span["name"], *minutes_of(span)) for span in spans] == [
        ("queued", 0, 1),
        ("reserved", 1, 2),
        ("admitted", 2, 3),
        ("running", 3, 5),
        ("workload", 0, 5),
    ]
    *phases, life = spans
    assert {span["parentSpanId"] for span in phases} == {life["spanId"]}
    assert (life["status"], "parentSpanId" in life) == ({"code": 1}, False)
    assert len({span["traceId"] for span in spans}) == 1
    assert len({span["spanId"] for span in spans}) == len(spans)
    assert all(len(span["traceId"]) == 32 and len(span["spanId"]) == 16 for span in spans)


def test_evicted_workload_is_queued_again():
    evicted = workload("Evicted", false=("QuotaReserved", "Admitted"))
    (span,) = traces.spans(Change(type="MODIFIED", object=evicted, old=LIFE[2]), 0)
    assert span["name"] == "admitted"
    assert traces.phase(evicted)[0] == "queued"


def test_failure_and_deletion_are_errors():
    failed = workload("QuotaReserved", "Admitted", "Finished", reason="Failed")
    life = traces.spans(Change(type="MODIFIED", object=failed, old=LIFE[2]), 0)[-1]
    assert life["status"] == {"code": 2, "message": "Failed"}
    end = 1_767_225_600_000_000_000 + 7 * 60_000_000_000
    phase, life = traces.spans(Change(type="DELETED", object=LIFE[1], old=LIFE[1]), end)
    assert (phase["name"], minutes_of(phase), life["status"]["message"]) == ("reserved", (1, 7), "deleted")


def test_nothing_ends_when_nothing_changes():
    assert traces.spans(Change(type="ADDED", object=LIFE[4], old=None), 0) == []
    assert traces.spans(Change(type="MODIFIED", object=LIFE[1], old=LIFE[1]), 0) == []
    assert traces.spans(Change(type="DELETED", object=LIFE[4], old=LIFE[4]), 0) == []


@pytest.fixture
def collector():
    """A web server that keeps the spans that are posted, and fails the first time."""
    spans, codes = queue.Queue(), iter([503])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            code = next(codes, 200)
            for resource in document["resourceSpans"] if code == 200 and self.path == "/v1/traces" else ():
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        spans.put((self.headers["Authorization"], resource["resource"]["attributes"], span))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()


def test_up_sends_them_to_a_collector(tmp_path, collector, monkeypatch):
    url, spans = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    server = start_server(tmp_path / "data", "--runtime", "process", "--no-isolation", "--traces", url)
    try:
        with pykueue.connect(server.kubeconfig) as cluster:
            cluster.wait(cluster.submit(["true"], name="traced", cpu="100m"), timeout="60s")
        names = []
        while "workload" not in names:
            authorization, service, span = spans.get(timeout=60)
            names.append(span["name"])
        assert authorization == "Bearer abc"
        assert service == [{"key": "service.name", "value": {"stringValue": "pykueue"}}]
        attributes = {item["key"]: item["value"]["stringValue"] for item in span["attributes"]}
        assert (attributes["kueue.job"], attributes["kueue.clusterqueue"]) == ("traced", "default")
        assert names[0] == "queued"
        assert "admitted" in names
    finally:
        stop_server(server)
