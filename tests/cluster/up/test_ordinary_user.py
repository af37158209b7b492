"""`pykueue up` from the first job to `down` by somebody who is not root and has no account."""

import asyncio
import os
import subprocess
import sys
import uuid

import pytest
from tests.cluster.runtimes.test_isolation import OBSTACLE
from tests.cluster.runtimes.test_process import log_of, request
from tests.cluster.up.conftest import SOURCE

from pykueue.cluster.runtimes import isolation, sandbox
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser
from pykueue.cluster.runtimes.unix_users import FIRST_UID

UID = 2_090_000_000
SCRIPT = f"""
export PYTHONPATH={SOURCE} HOME=$PWD/home
mkdir -p -m 700 $HOME
pykueue() {{ {sys.executable} -m pykueue "$@"; }}
step() {{ echo "== $1"; shift; "$@" 2>&1 || echo "failed with $?"; }}
pykueue up --bare --listen 127.0.0.1:0 --kubeconfig $HOME/kubeconfig > banner 2>&1 &
for _ in $(seq 600); do [ -s $HOME/kubeconfig ] && break; sleep 0.1; done
export KUBECONFIG=$HOME/kubeconfig
data=$HOME/.local/share/pykueue
step queue pykueue create resourceflavor default
step queue pykueue create clusterqueue team --nominal-quota default:cpu=2
step queue pykueue create localqueue train --clusterqueue team
step job pykueue submit -f --queue train --name first --cpu 1 -- sh -c 'id -u; echo $HOME; exit 3'
step user pykueue user add jane --namespace ml --kubeconfig $HOME/jane
step long pykueue submit --queue train --name long --cpu 1 -- sleep 1234
step modes stat -c '%a %u' $data $HOME/jane $KUBECONFIG
step down pykueue down
wait
echo "== processes"; ps -eo args= | grep -cx 'sleep 1234'
echo "== banner"; cat banner
"""


def sections(text):
    parts: dict[str, str] = {}
    for part in text.split("== ")[1:]:
        name, _, rest = part.partition("\n")
        parts[name] = parts.get(name, "") + rest
    return parts


async def output(tmp_path):
    if os.geteuid() != 0:
        return await asyncio.to_thread(subprocess.check_output, ["sh", "-c", SCRIPT], cwd=tmp_path, text=True)
    if OBSTACLE:
        pytest.skip(f"another user cannot be taken on here: {OBSTACLE}")
    if (directory := sandbox.private_ancestor(SOURCE)) is not None:
        pytest.skip(f"another user cannot read the source code in {directory}")
    if SOURCE.resolve().is_relative_to("/tmp"):
        pytest.skip("the source code is in /tmp, and another user has a /tmp of its own")
    user = UnixUser(uid=UID, gid=UID)
    security = ContainerSecurity(user=user, has_pid_namespace=True)
    container_request = request("sh", "-c", SCRIPT, uid=str(uuid.uuid4()), security=security)
    runtime = ProcessRuntime(tmp_path / "room")
    container = await runtime.start(container_request)
    await container.wait()
    return log_of(runtime, container_request)


async def test_an_ordinary_user_from_the_first_job_to_the_end(tmp_path):
    uid = os.geteuid() or UID
    text = await output(tmp_path)
    steps = sections(text)
    name = uid if uid == UID else isolation.determine(is_enabled=True, first_uid=FIRST_UID).server.name
    warning = f"Jobs run as the Unix user {name} (isolation is off: it needs root): whoever may submit a job is {name}."
    assert "failed" not in steps["queue"], text
    assert f"\n{uid}\n" in steps["job"]
    assert "home" in steps["job"]
    assert "failed with 3" in steps["job"] or "exit code 3" in steps["job"]
    assert warning in steps["user"]
    assert warning in steps["banner"]
    assert steps["modes"].split() == ["700", str(uid), "600", str(uid), "600", str(uid)]
    assert "failed" not in steps["down"]
    assert steps["processes"].strip() == "0"
    assert "Traceback" not in text
