from pykueue.cli import serving

CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations:
  frameworks: [batch/job, trainer.kubeflow.org/trainjob]
"""


def test_a_kind_without_a_controller_is_left_alone_and_that_is_said(tmp_path, capsys):
    path = tmp_path / "config.yaml"
    path.write_text(CONFIGURATION)
    assert serving.load_configuration(path).value.enabled_frameworks == {"batch/job"}
    assert "trainjob is not supported" in capsys.readouterr().err
