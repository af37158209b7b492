from pathlib import Path

import pytest

from pykueue.api.configuration import checks, loading, types

MINUTE = types.MINUTE_NS
V2 = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
V1 = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n"


def value(text):
    return loading.load(text).value


def problems(text):
    with pytest.raises(loading.ConfigurationError) as raised:
        loading.load(text, "kueue.yaml")
    return raised.value.problems


def test_nothing_written_means_the_defaults():
    assert value("") == value(V2)


def test_defaults_are_those_of_kueue():
    configuration = value(V2)
    assert configuration.integrations.frameworks == ("batch/job",)
    assert configuration.wait_for_pods_ready.timeout_ns == 30 * MINUTE
    assert configuration.wait_for_pods_ready.recovery_timeout_ns == 30 * MINUTE
    assert configuration.wait_for_pods_ready.requeuing_strategy.backoff_max_seconds == 3600
    assert configuration.waits_for_pods_ready
    assert configuration.fair_sharing is None
    assert configuration.client_connection.qps == 300
    assert configuration.multi_kueue.worker_lost_timeout_ns == 15 * MINUTE
    assert configuration.leader_election.resource_name == "c1f6bfd2.kueue.x-k8s.io"
    assert configuration.metrics.local_queue_metrics.enable
    assert configuration.visibility_server.bind_port == 8082


def test_system_namespaces_are_not_managed_by_default():
    expression = value(V2 + "namespace: own").namespace_selector["matchExpressions"][0]
    assert expression["values"] == ["kube-system", "own"]


def test_recovery_timeout_follows_the_timeout():
    assert value(V2 + "waitForPodsReady: {timeout: 5m}").wait_for_pods_ready.recovery_timeout_ns == 5 * MINUTE


def test_pods_readiness_is_switched_off_by_its_gate():
    assert not value(V2 + "featureGates: {DisableWaitForPodsReady: true}").waits_for_pods_ready


def test_kinds_managed_through_their_pods_enable_pods():
    text = V2 + "integrations: {frameworks: [batch/job, deployment]}"
    assert value(text).settings().frameworks == {"batch/job", "deployment", "pod"}


def test_settings_carry_what_admission_reads():
    text = V2 + "manageJobsWithoutQueueName: true\nfeatureGates: {PartialAdmission: false}"
    settings = value(text).settings()
    assert settings.manage_jobs_without_queue_name
    assert settings.feature_gates == {"PartialAdmission": False}


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    "section",
    [
        "resources:",
        "resources:\n  transformations:",
        "integrations:\n  frameworks:",
        "waitForPodsReady:",
        "featureGates:",
    ],
)
def test_a_section_without_a_value_is_absent(version: str, section: str):
    assert value(version + section) == value(version)


def test_an_unknown_field_without_a_value_is_named():
    with pytest.raises(loading.ConfigurationError, match="resourcs"):
        value(V2 + "resourcs:")


def test_document_is_kept_as_written_for_readers_of_json():
    document = loading.load(V2 + "fairSharing: {preemptionStrategies: [LessThanInitialShare]}").document
    assert document["fairSharing"] == {"preemptionStrategies": ["LessThanInitialShare"]}


def test_v1beta1_enables_sections_by_a_field():
    configuration = value(V1 + "waitForPodsReady: {enable: true}\nfairSharing: {enable: true}")
    assert configuration.wait_for_pods_ready.timeout_ns == 5 * MINUTE
    assert configuration.wait_for_pods_ready.block_admission
    assert configuration.fair_sharing.preemption_strategies == ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def test_v1beta1_disabled_section_is_absent():
    configuration = value(V1 + "waitForPodsReady: {enable: false, timeout: 1m}\nfairSharing: {enable: false}")
    assert configuration.wait_for_pods_ready.timeout_ns == 30 * MINUTE
    assert configuration.fair_sharing is None


def test_v1beta1_drops_what_v1beta2_has_no_more():
    text = V1 + "queueVisibility: {clusterQueues: {maxCount: 10}}\nintegrations: {podOptions: {podSelector: {}}}"
    assert value(text) == value(V2)


HELM = """\
controllerManager:
  manager:
    configuration:
      integrations:
        frameworks:
        - "batch/job"
        - "kubeflow.org/pytorchjob"
"""


def test_helm_values_hold_a_configuration():
    assert value(HELM).integrations.frameworks == ("batch/job", "kubeflow.org/pytorchjob")


def test_helm_values_hold_a_configuration_as_text():
    text = (
        f"managerConfig:\n  controllerManagerConfigYaml: |\n    {V2.replace(chr(10), chr(10) + '    ')}namespace: own\n"
    )
    assert value(text).namespace == "own"


def test_helm_values_hold_feature_gates():
    text = "controllerManager:\n  featureGates:\n  - {name: PartialAdmission, enabled: false}\n"
    assert value(text).feature_gates == {"PartialAdmission": False}


def test_config_map_holds_a_configuration():
    text = f"kind: ConfigMap\ndata:\n  controller_manager_config.yaml: |\n    {V2.replace(chr(10), chr(10) + '    ')}namespace: own\n"
    assert value(text).namespace == "own"


def test_extensions_are_off_by_default():
    configuration = value(V2)
    assert not configuration.preemption_loop_guard
    assert not configuration.integrations.ray_job.count_default_submitter


CUSTOM = """\
preemptionLoopGuard: true
integrations:
  rayJob: {countDefaultSubmitter: true}
  custom:
  - group: example.com
    version: v1
    kind: Simulation
    podSets: [{template: spec.template, count: spec.workers}]
    finished: {succeeded: Complete}
"""


def test_extensions_are_read():
    configuration = value(V2 + CUSTOM)
    assert configuration.preemption_loop_guard
    assert configuration.integrations.ray_job.count_default_submitter
    assert configuration.integrations.custom[0].plural_name == "simulations"
    assert configuration.integrations.custom[0].suspend == "spec.suspend"
    assert configuration.integrations.custom[0].finished.failed == "Failed"
    assert configuration.settings().custom_jobs == {("example.com", "Simulation"): ("spec", "suspend")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("waitForPodsRedy: {}", 'kueue.yaml:3: waitForPodsRedy: Invalid value: unknown field "waitForPodsRedy"; did you mean \'waitForPodsReady\'?'),
        ("integrations: {frameworks: [batch/jobs]}", 'kueue.yaml:3: integrations.frameworks[0]: Unsupported value: "batch/jobs": supported values: '),
        ("integrations: {frameworks: [pod, pod]}", 'kueue.yaml:3: integrations.frameworks[1]: Duplicate value: "pod"'),
        ("integrations: {externalFrameworks: [Foo]}", "kueue.yaml:3: integrations.externalFrameworks[0]: Invalid value: \"Foo\": must be format, 'Kind.version.group.com'"),
        ("waitForPodsReady: {timeout: 5}", "kueue.yaml:3: waitForPodsReady.timeout: Invalid value: "),
        ("waitForPodsReady: {timeout: soon}", 'kueue.yaml:3: waitForPodsReady.timeout: Invalid value: "soon": "soon" is not a duration; write one like "1h30m" or "250ms"'),
        ("waitForPodsReady: {timeout: -1s}", 'kueue.yaml:3: waitForPodsReady.timeout: Invalid value: "-1s": must be greater than or equal to 0'),
        ("waitForPodsReady: {requeuingStrategy: {timestamp: Now}}", 'kueue.yaml:3: waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: "Now": supported values: "Eviction", "Creation"'),
        ("fairSharing: {}", "kueue.yaml:3: fairSharing.preemptionStrategies: Required value: must be specified"),
        ("fairSharing: {preemptionStrategies: [Fairly]}", 'kueue.yaml:3: fairSharing.preemptionStrategies: Unsupported value: ["Fairly"]: supported values: "LessThanOrEqualToFinalShare", "LessThanInitialShare", "LessThanOrEqualToFinalShare,LessThanInitialShare"'),
        ("managedJobsNamespaceSelector: {}", 'kueue.yaml:3: managedJobsNamespaceSelector: Invalid value: {}: should not match the "kube-system" namespace'),
        ("featureGates: {Faster: true}", "kueue.yaml:3: featureGates.Faster: Invalid value: true: unrecognized feature gate: Faster"),
        ("featureGates: {HierarchicalCohorts: false}", "kueue.yaml:3: featureGates.HierarchicalCohorts: Invalid value: false: cannot set feature gate HierarchicalCohorts to false, feature is locked to true"),
        ("featureGates: {KueueDRAIntegration: false}", 'kueue.yaml:3: featureGates.KueueDRAIntegration: Invalid value: "KueueDRAIntegrationExtendedResource": KueueDRAIntegrationExtendedResource requires KueueDRAIntegration to be enabled'),
        ("resources: {quotaCheckStrategy: IgnoreUndeclared, excludeResourcePrefixes: [x]}", 'kueue.yaml:3: resources.quotaCheckStrategy: Invalid value: "IgnoreUndeclared": excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared'),
        ("resources: {transformations: [{input: a}, {input: a}]}", 'kueue.yaml:3: resources.transformations[1].input: Duplicate value: "a"'),
        ("multiKueue: {incrementalDispatcherConfig: {stepSize: 2}}", 'kueue.yaml:3: multiKueue.incrementalDispatcherConfig: Invalid value: {"stepSize":2}: incrementalDispatcherConfig is only valid when dispatcherName is set to the incremental dispatcher'),
        ("tls: {minVersion: SSL}", 'kueue.yaml:3: tls.minVersion: Unsupported value: "SSL": supported values: "VersionTLS12", "VersionTLS13"'),
        ("visibilityServer: {bindPort: 0}", "kueue.yaml:3: visibilityServer.bindPort: Invalid value: 0: must be a valid port number (1-65535)"),
        ("metrics: {customLabels: [{name: 1a}]}", 'kueue.yaml:3: metrics.customLabels[0].name: Invalid value: "1a": must match ^[a-zA-Z][a-zA-Z0-9_]*$'),
        ("integrations: {custom: [{group: batch, version: v1, kind: Job, podSets: [{template: x}]}]}", 'kueue.yaml:3: integrations.custom[0].kind: Invalid value: "Job": Kueue manages this kind itself; name it in integrations.frameworks instead'),
        ("integrations: {custom: [{group: a.io, version: v1, kind: X, suspend: 'a[0].b', podSets: [{template: x}]}]}", 'kueue.yaml:3: integrations.custom[0].suspend: Invalid value: "a[0].b": must not lead through a list: a job has one such field'),
        ("integrations: {custom: [{group: a.io, version: v1, kind: X, suspend: 'a b', podSets: [{template: x}]}]}", 'kueue.yaml:3: integrations.custom[0].suspend: Invalid value: "a b": must be the path of a field, such as spec.suspend'),
    ],
)  # fmt: skip
def test_fault_names_its_field_and_the_remedy(text, problem):
    messages = problems(V2 + text)
    assert any(message.startswith(problem) for message in messages), messages


def test_every_fault_is_found_at_once():
    assert len(problems(V2 + "fairSharing: {}\nnamespac: x\nfeatureGates: {Faster: true}")) == 3


def test_other_kinds_are_no_configuration():
    assert "no Configuration" in problems("kind: Job\napiVersion: batch/v1\n")[0]


def test_unknown_version_is_refused():
    assert "Unsupported value" in problems("apiVersion: config.kueue.x-k8s.io/v9\nkind: Configuration\n")[0]


def test_gates_of_helm_and_configuration_exclude_each_other():
    text = "controllerManager:\n  featureGates: [{name: PartialAdmission, enabled: false}]\n  manager:\n    configuration:\n      featureGates: {PriorityBoost: true}\n"
    assert "feature gates for CLI and configuration cannot both specified" in problems(text)[0]


STORIES = [parent / "shared" / "stories" / "stories" for parent in Path(__file__).parents]
FOLDER = next((folder for folder in STORIES if folder.is_dir()), None)


@pytest.mark.skipif(FOLDER is None, reason="no recorded stories beside the repository")
def test_configurations_of_the_recorded_stories_are_accepted():
    texts = [path.read_text() for path in FOLDER.glob("*/config.yaml")]
    assert [value(V2 + text) for text in texts if text.strip() != "{}"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tls: {cipherSuites: [TLS_NOPE]}", 'tls.cipherSuites[0]: Unsupported value: "TLS_NOPE"'),
        ("tls: {curvePreferences: [7]}", "tls.curvePreferences[0]: Invalid value: 7: must be one of: 23 (prime256v1)"),
        ("leaderElection: {resourceLock: configmaps}", "leaderElection.resourceLock: Unsupported value"),
        (
            "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}",
            "integrations.frameworks[0]: Forbidden: requires the feature gate SparkApplicationIntegration",
        ),
    ],
)
def test_what_cannot_act_is_refused(text, fault):
    with pytest.raises(loading.ConfigurationError) as refusal:
        value(V2 + text)
    assert fault in str(refusal.value)


def test_spark_applications_need_their_gate():
    text = "integrations: {frameworks: [sparkoperator.k8s.io/sparkapplication]}\n"
    configuration = value(V2 + text + "featureGates: {SparkApplicationIntegration: true}")
    assert configuration.integrations.frameworks == ("sparkoperator.k8s.io/sparkapplication",)


def mappings(*sources, **gates):
    selector = {"cel": {"expression": "true"}}
    entries = [
        {kind: {"name": "memory", "driver": "gpu.example.com", "deviceSelector": selector, **fields}}
        for kind, fields in sources
    ]
    mapping = {"name": "gpu.memory", "deviceClassNames": ["gpu.example.com"], "sources": entries}
    return {"resources": {"deviceClassMappings": [mapping]}, "featureGates": gates}


CAPACITY_ON = {"KueueDRAIntegrationConsumableCapacity": True}


@pytest.mark.parametrize(
    ("configuration", "detail"),
    [
        (mappings(("capacity", {})), "capacity sources require KueueDRAIntegrationConsumableCapacity to be enabled"),
        (
            mappings(("counter", {}), KueueDRAIntegrationPartitionableDevices=False),
            "counter sources require KueueDRAIntegrationPartitionableDevices to be enabled",
        ),
        (mappings(("counter", {"driver": ""})), "sources[0].counter.driver: Required value"),
        (mappings(("counter", {"name": ""})), "sources[0].counter.name: Required value"),
        (mappings(("counter", {"deviceSelector": {}})), "deviceSelector.cel.expression: Required value"),
        (
            mappings(("counter", {"deviceSelector": {"cel": {"expression": "1 +"}}})),
            "CEL compilation failed",
        ),
        (
            mappings(("counter", {}), ("capacity", {}), **CAPACITY_ON),
            "cannot mix counter and capacity sources in the same mapping",
        ),
    ],
)
def test_sources_of_devices_are_checked(configuration, detail):
    (fault,) = checks.check(configuration)
    assert detail in str(fault)


def test_sources_that_are_enabled_are_valid():
    assert checks.check(mappings(("counter", {}))) == []
    assert checks.check(mappings(("capacity", {}), **CAPACITY_ON)) == []


def test_a_class_counts_for_two_resources_only_by_two_counters():
    configuration = mappings(("counter", {}))
    section = configuration["resources"]["deviceClassMappings"]
    section.append({**section[0], "name": "gpu.other"})
    (fault,) = checks.check(configuration)
    assert 'device class already has a counter source for counter "memory"' in str(fault)
    section[1] = {"name": "gpu.other", "deviceClassNames": ["gpu.example.com"]}
    (fault,) = checks.check(configuration)
    assert "device class already mapped to resource gpu.memory" in str(fault)
