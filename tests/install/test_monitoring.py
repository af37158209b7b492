"""Alert rules and dashboards: accepted by promtool, and every query answered on real scrapes."""

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml
from tests.dashboard.page_site import free_port
from tests.e2e.conftest import start_server, stop_server
from tests.install.test_chart import by_name, needs_helm, template

from pykueue.controllers.metrics.catalog import CATALOG, LOOP_BLOCKED

MONITORING = Path(__file__).parents[2] / "charts" / "pykueue" / "monitoring"
ALERTS = MONITORING / "alerts.yaml"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((MONITORING / "queues.json").read_text())["panels"]
QUERIES = {panel["title"]: target["expr"] for panel in PANELS for target in panel["targets"]}
QUERIES |= {rule["alert"]: rule["expr"] for rule in RULES}
DEADLINE_SECONDS = 40

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="Prometheus is not installed (Debian: apt-get install prometheus)"
)


@pytest.mark.parametrize("title", sorted(QUERIES))
def test_a_query_reads_metrics_that_exist(title):
    names = re.findall(r"\b(?:py)?kueue_\w+", QUERIES[title])
    known = {*CATALOG, LOOP_BLOCKED.name, "kueue_build_info"}
    assert [name for name in names if re.sub(r"_(bucket|sum|count)$", "", name) not in known] == []


def test_every_alert_says_what_to_do():
    assert [rule["alert"] for rule in RULES if not {"summary", "action"} <= rule["annotations"].keys()] == []


@needs_prometheus
def test_promtool_accepts_the_rules():
    done = subprocess.run([PROMTOOL, "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
def test_the_chart_has_the_rules_and_the_dashboard():
    objects = by_name(template("--set", "enablePrometheus=true"))
    assert objects["PrometheusRule", "pykueue-alerts"]["spec"] == yaml.safe_load(ALERTS.read_text())
    data = objects["ConfigMap", "pykueue-dashboards"]["data"]
    assert json.loads(data["queues.json"])["uid"] == "pykueue-queues"


@needs_helm
def test_the_chart_leaves_monitoring_out_by_default():
    assert "PrometheusRule" not in {kind for kind, _ in by_name(template())}


class Server:
    """A Prometheus that scrapes `pykueue up` every second."""

    def __init__(self, directory, up):
        self.port = free_port()
        scrape = {
            "job_name": "pykueue",
            "scheme": "https",
            "authorization": {"credentials": up.token},
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [{"targets": [up.url.removeprefix("https://")]}],
        }
        settings = {"global": {"scrape_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": [scrape]}
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(settings))
        command = [PROMETHEUS, f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}"]
        self.process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query?{query}", timeout=10) as response:
            answer = json.load(response)
        assert answer["status"] == "success"
        return answer["data"]["result"]

    def until(self, expression):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            try:
                if result := self.query(expression):
                    return result
            except OSError:
                pass
            time.sleep(0.2)
        raise AssertionError(f"{expression} has no result")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("monitoring")
    up = start_server(directory / "data")
    server = Server(directory, up)
    yield server
    server.process.terminate()
    server.process.wait(timeout=20)
    stop_server(up)


@needs_prometheus
def test_every_query_is_answered_on_real_scrapes(prometheus):
    prometheus.until("count_over_time(kueue_build_info[1m]) > 2")
    for expression in QUERIES.values():
        prometheus.query(expression)
    assert prometheus.query(QUERIES["Cluster queues that are not active"])


@needs_prometheus
def test_the_rules_are_loaded_and_nothing_is_wrong_with_a_new_cluster(prometheus):
    prometheus.until("kueue_build_info")
    assert prometheus.query("ALERTS{alertstate='firing'}") == []
