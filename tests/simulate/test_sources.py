"""Jobs from tables, traces and the generator, and what is said about bad ones."""

import json

import pytest
from tests.simulate.worlds import GPU, KUEUE, cluster_queue, flavor, local_queue

from pykueue.api.times import SECOND_NS
from pykueue.simulate import what_if
from pykueue.simulate.engine_driver.world import World
from pykueue.simulate.sources import files, generator, manifests
from pykueue.simulate.sources.collector import JobCollector
from pykueue.simulate.sources.rows import SourceError


def collector(**options):
    group = {
        "coveredResources": ["cpu", "memory", GPU],
        "flavors": [
            {
                "name": "gpu",
                "resources": [{"name": name, "nominalQuota": "64"} for name in ("cpu", "memory", GPU)],
            }
        ],
    }
    queue = cluster_queue("team-a", 0, resourceGroups=[group])
    return JobCollector(World.from_objects([flavor(), queue, local_queue("team-a")]), **options)


def read(tmp_path, name, text, **options):
    path = tmp_path / name
    path.write_text(text)
    jobs = collector(**options)
    files.add(path, jobs)
    return jobs


def only_job(jobs):
    """Submit, run, pods, CPUs in milli, GPUs and priority of the one job."""
    table = jobs.jobs
    assert len(table) == 1
    prototype = table.prototype(0)
    requests = prototype.pod_sets[0].requests
    return (
        table.submit_ns[0] // SECOND_NS,
        table.run_ns[0] // SECOND_NS,
        prototype.pod_sets[0].count,
        requests.get("cpu", 0),
        requests.get(GPU, 0),
        prototype.priority,
    )


def test_a_table_with_own_columns(tmp_path):
    text = "submit,run,queue,priority,pods,cpu,nvidia.com/gpu\n2026-05-01T09:00:00Z,1h30m,team-a,7,2,4,1\n"
    assert only_job(read(tmp_path, "jobs.csv", text)) == (0, 5400, 2, 8000, 2, 7)


def test_the_earliest_job_arrives_at_time_0_whatever_the_order_of_the_rows(tmp_path):
    jobs = read(tmp_path, "jobs.csv", "submit,run,cpu\n700,1,1\n500,1,1\n", scale=2.0)
    (tmp_path / "earlier.csv").write_text("submit,run,cpu\n300,1,1\n")
    files.add(tmp_path / "earlier.csv", jobs)
    assert [submit_ns // SECOND_NS for submit_ns in jobs.jobs.submit_ns] == [200, 100, 0]


def test_a_table_in_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is an optional extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"submit": [10], "run": [60], "queue": ["team-a"], "gpu": [2]})
    parquet.write_table(table, tmp_path / "jobs.parquet")
    jobs = collector()
    files.add(tmp_path / "jobs.parquet", jobs)
    assert only_job(jobs) == (0, 60, 1, 0, 2, 0)


def test_the_standard_workload_format(tmp_path):
    text = "; Computer: example\n1 100 5 3600 8 -1 -1 16 7200 -1 1 3 1 -1 2 -1 -1 -1\n"
    assert only_job(read(tmp_path, "trace.swf", text, queue_map={"*": "team-a/main"})) == (0, 3600, 1, 16000, 0, 0)


def test_sacct(tmp_path):
    text = (
        "JobID|JobName|User|Partition|Submit|Start|ElapsedRaw|ReqTRES|Priority\n"
        "12|train|ann|team-a|2026-05-01T09:00:00|2026-05-01T09:10:00|600|cpu=8,mem=64G,node=1,gres/gpu=4|100\n"
        "12.batch|batch|ann|team-a|2026-05-01T09:00:00|2026-05-01T09:10:00|600|cpu=8|\n"
    )
    assert only_job(read(tmp_path, "sacct.txt", text)) == (0, 600, 1, 8000, 4, 100)


def test_sacct_with_gpus_by_type_only(tmp_path):
    text = "JobID|Partition|Submit|ElapsedRaw|ReqTRES\n12|team-a|2026-05-01T09:00:00|600|cpu=8,gres/gpu:a100=2,gres/gpu:t4=1\n"
    assert only_job(read(tmp_path, "sacct.txt", text)) == (0, 600, 1, 8000, 3, 0)


def test_rows_without_a_run_are_counted(tmp_path):
    text = "job,worker,1,Terminated,100,400,600,29,50,team-a\njob,ps,1,Running,100,,600,29,50,team-a\n"
    jobs = read(tmp_path, "pai_task_table.csv", text)
    assert (len(jobs.jobs), list(jobs.notes())) == (1, ["1 row without a complete run left out."])


def test_helios(tmp_path):
    text = (
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,team-a,16,32,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60\n"
    )
    assert only_job(read(tmp_path, "cluster_log.csv", text)) == (0, 3600, 2, 32000, 16, 0)


def test_pai_without_a_header(tmp_path):
    text = "job,worker,2,Terminated,100.0,400.0,600.0,29.3,50.0,V100\n"
    assert only_job(read(tmp_path, "pai_task_table.csv", text, queue_map={"V100": "team-a/main"})) == (
        0, 300, 2, 12000, 2, 0,
    )  # fmt: skip


def test_philly(tmp_path):
    attempt = {
        "start_time": "2017-10-07 01:00:00",
        "end_time": "2017-10-07 02:00:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}],
    }
    job = {"vc": "team-a", "jobid": "application_1", "submitted_time": "2017-10-07 00:30:00", "attempts": [attempt]}
    assert only_job(read(tmp_path, "cluster_job_log", json.dumps([job]))) == (0, 3600, 2, 0, 4, 0)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("jobs.csv", "submit,run,gpus\n0,abc,1\n", "jobs.csv:2: column run: 'abc' is not a duration\nWrite seconds"),
        (
            "jobs.csv",
            "submit,run,gpu\n0,10,1\nyesterday,10,1\n",
            "jobs.csv:3: column submit: 'yesterday' is not a time",
        ),
        (
            "jobs.csv",
            "submit,run,gpuz\n0,10,1\n",
            "jobs.csv:1: column gpuz: pykueue does not know it\nDid you mean gpu",
        ),
        ("jobs.csv", "submit,gpu\n0,1\n", "the table has no column run"),
        ("jobs.csv", "submit,run,gpu\n0,10\n", "jobs.csv:2: the row has 2 cells, the header has 3"),
        ("jobs.csv", "submit,run,gpu\n0,10,-1\n", "jobs.csv:2: column gpu: '-1' is negative"),
        ("jobs.csv", "submit,run\n0,10\n", "the job requests nothing"),
        ("jobs.csv", "submit,run,gpu,queue\n0,10,1,team-z\n", "no LocalQueue for the queue 'team-z'\nMap it with"),
        ("a.swf", "1 2 3\n", "a.swf:1: the line has 3 fields, the Standard Workload Format has 18"),
        ("s.txt", "JobID|User\n1|u\n", "s.txt:1: column Submit: the header has no Submit\nRun: sacct"),
        ("j.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "j.yaml: the file has no job"),
        ("j.yaml", "a: [", "j.yaml:2: not YAML"),
    ],
)
def test_a_bad_file_is_refused_with_its_place_and_a_remedy(tmp_path, name, text, message):
    with pytest.raises(SourceError) as caught:
        read(tmp_path, name, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("clusterqueue/team-b.nominalQuota[gpu]=8", "no clusterqueue team-b\nThere are: team-a."),
        ("clusterqueue/team-a.nominalQuta[gpu]=8", 'unknown field "spec.nominalQuta"'),
        ("clusterqueue/team-a.nominalQuota[gpu]=many", "quantities must match"),
        ("clusterqueue/team-a.nominalQuota[gpu]=-1", "must be greater than or equal to 0"),
        ("clusterqueue/team-a.queueingStrategy=Strict", 'Unsupported value: "Strict"'),
    ],
)
def test_a_change_that_a_cluster_would_refuse_is_refused(setting, message):
    variant = what_if.Variant(name=setting, settings=tuple(what_if.parse(setting)))
    with pytest.raises(SourceError) as caught:
        what_if.changed([flavor(), cluster_queue("team-a", 4), local_queue("team-a")], variant)
    assert str(caught.value).startswith(f"--set {setting}: ")
    assert message in str(caught.value)


def test_requests_without_quota_are_ignored_and_named(tmp_path):
    jobs = read(tmp_path, "jobs.csv", "submit,run,gpu,example.com/fpga\n0,10,1,1\n")
    assert jobs.ignored_resources == {"example.com/fpga"}


def test_one_seed_draws_the_same_jobs():
    text = "jobs=50 sizes=1,2*3 run=pareto(1m,1.5) priority=0,10 seed=4"
    assert list(generator.read(text, ["a/b"])) == list(generator.read(text, ["a/b"]))
    assert list(generator.read(text, ["a/b"])) != list(generator.read(text.replace("seed=4", "seed=5"), ["a/b"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs=5 colour=red", "'colour=red' is not a setting\nSettings are jobs, rate"),
        ("rate=fast", "column rate: 'fast' is not a rate"),
        ("run=normal(1,2)", "column run: 'normal(1,2)' is not a distribution"),
        ("sizes=1*x", "column sizes: 'x' is not a weight"),
    ],
)
def test_a_bad_description_of_jobs_is_refused(text, message):
    with pytest.raises(SourceError) as caught:
        list(generator.read(text, ["a/b"]))
    assert message in str(caught.value)


def test_a_job_of_a_manifest_runs_as_long_as_it_says():
    job = """
apiVersion: batch/v1
kind: Job
metadata:
  {name: train, namespace: team-a, labels: {kueue.x-k8s.io/queue-name: main},
   annotations: {pykueue.dev/submit-after: 2m, pykueue.dev/runtime: 1h}}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "3"}}}]
"""
    jobs = collector()
    manifests.add_jobs(manifests.load([("job.yaml", job.encode())]).jobs, jobs, run_ns=None)
    assert only_job(jobs) == (120, 3600, 2, 6000, 0, 0)


def test_an_old_version_of_a_queue_is_converted_and_defaulted():
    text = f"""
apiVersion: {KUEUE.replace("v1beta2", "v1beta1")}
kind: ClusterQueue
metadata: {{name: team-a}}
spec:
  cohort: all
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: 4}}]}}]
"""
    obj = manifests.load([("queue.yaml", text.encode())]).objects[0]
    assert (obj["spec"]["cohortName"], obj["spec"]["queueingStrategy"]) == ("all", "BestEffortFIFO")
