"""Our CRDs on a real API server.

Set REAL_KUBECONFIG to a cluster of Kubernetes 1.36 to run it; nothing is changed there.
"""

import os
import subprocess

import pytest

from pykueue.api import crds, registry, yaml_text
from pykueue.api.kueue.kinds import GROUP

KUBECONFIG = os.environ.get("REAL_KUBECONFIG", "")
DEFINITIONS = crds.definitions(kind for kind in registry.scheme() if kind.group == GROUP)

pytestmark = pytest.mark.skipif(not KUBECONFIG, reason="REAL_KUBECONFIG names no cluster")


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_a_definition_is_accepted(definition):
    apply = ["kubectl", "--kubeconfig", KUBECONFIG, "apply", "--server-side", "--force-conflicts", "--dry-run=server"]
    result = subprocess.run(
        [*apply, "-f", "-"], input=yaml_text.dump([definition]), text=True, capture_output=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
