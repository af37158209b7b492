"""Isolated processes, as root: what a job cannot read, keep, exceed or leave behind."""

import asyncio
import contextlib
import ctypes
import os
import platform
import sys
import uuid
from pathlib import Path

import pytest
from tests.cluster.runtimes.test_process import log_of, request
from tests.cluster.waiting import eventually

from pykueue.cluster.kubelet.volumes import Mounts
from pykueue.cluster.runtimes import isolation, launch, process
from pykueue.cluster.runtimes.linux_calls import CAPABILITIES
from pykueue.cluster.runtimes.monitor import ContainerLimits
from pykueue.cluster.runtimes.process import ProcessRuntime
from pykueue.cluster.runtimes.protocol import StartError
from pykueue.cluster.runtimes.sandbox import ContainerSecurity, UnixUser
from pykueue.cluster.runtimes.unix_users import FIRST_UID

OBSTACLE = isolation.determine(is_enabled=True, first_uid=FIRST_UID).obstacle
pytestmark = pytest.mark.skipif(bool(OBSTACLE), reason=f"isolation is not possible here: {OBSTACLE}")

JANE = UnixUser(uid=FIRST_UID, gid=FIRST_UID, name="pykueue-ml")
BOB = UnixUser(uid=FIRST_UID + 1, gid=FIRST_UID + 1, name="pykueue-other")


def as_user(user, **fields):
    return ContainerSecurity(**{"user": user, "has_pid_namespace": True, "has_seccomp_filter": True} | fields)


def shell(script, user=JANE, **fields):
    fields = {"uid": str(uuid.uuid4()), "security": as_user(user)} | fields
    return request("sh", "-c", script, **fields)


@pytest.fixture
def data_dir(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    (directory / "tokens.csv").write_text("secret-token")
    return directory


@pytest.fixture
def runtime(data_dir):
    return ProcessRuntime(data_dir / "room", ContainerLimits(interval_seconds=0.05))


async def all_output(execution):
    chunks = []
    while chunk := await execution.output():
        chunks.append(chunk)
    return b"".join(chunks).decode()


async def output(runtime, container_request):
    container = await runtime.start(container_request)
    await container.wait()
    return log_of(runtime, container_request)


async def running(runtime, container_request):
    """A container whose command has printed a line."""
    container = await runtime.start(container_request)
    await eventually(lambda: "\n" in log_of(runtime, container_request))
    return container


async def test_the_process_has_the_user_and_no_privileges(runtime):
    text = await output(runtime, shell("id -u; id -g; id -G; grep -E 'Cap(Prm|Eff)|NoNewPrivs' /proc/self/status"))
    lines = text.split()
    assert lines[:3] == [str(JANE.uid)] * 3
    assert lines[3:] == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1"]


async def test_the_data_directory_cannot_be_read(runtime, data_dir):
    text = await output(runtime, shell(f"cat {data_dir}/tokens.csv; ls -A {data_dir} {data_dir}/room"))
    assert "secret-token" not in text
    assert "tokens.csv: " in text
    assert "unix-users" not in text


async def test_files_of_another_user_cannot_be_read(runtime):
    await output(runtime, shell("umask 077; echo mine > /tmp/file; echo mine > file; sleep 0", BOB, uid="of-bob"))
    container = await running(runtime, shell("umask 077; echo mine | tee /tmp/x; sleep 60", BOB, uid="of-bob2"))
    scratch = runtime._root / "of-bob" / "work" / "file"
    assert scratch.read_text() == "mine\n"
    text = await output(runtime, shell(f"cat {scratch} /tmp/x; ls {scratch.parent}; ls -A /tmp/x /var/tmp /dev/shm"))
    assert "mine" not in text
    await container.stop(0)


@pytest.mark.parametrize("user", [JANE, BOB])
async def test_the_environment_of_another_pod_cannot_be_read(runtime, user):
    other = await running(runtime, shell("echo up; sleep 60", user, environment={"PASSWORD": "hunter2"}))
    text = await output(runtime, shell("cat /proc/[0-9]*/environ; ls -d /proc/[0-9]*; kill -9 -1; echo $?"))
    assert other._process.is_alive()
    assert "hunter2" not in text
    await other.stop(0)


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "BASH_ENV", "ENV", "PATH"])
async def test_variables_of_the_pod_are_never_read_with_the_rights_of_the_server(runtime, tmp_path, variable):
    script = tmp_path / "evil"
    script.write_text(f"id -u >> {tmp_path}/ran\n")
    environment = {variable: str(script)} | ({"PATH": f"{tmp_path}:/bin:/usr/bin"} if variable == "PATH" else {})
    for name in ("mount", "setpriv", "true"):
        (tmp_path / name).write_text(f"#!/bin/sh\nid -u >> {tmp_path}/ran\n")
        (tmp_path / name).chmod(0o755)
    await output(runtime, shell("true", environment=environment))
    assert not (tmp_path / "ran").exists() or "0" not in (tmp_path / "ran").read_text().split()


FORKS = "import os,time; os.fork() or (os.setsid(), os.fork() or time.sleep(SECONDS))"
DAEMONS = {
    "setsid": "env -i setsid sleep SECONDS & echo started",
    "double fork": f"{sys.executable} -c '{FORKS}'; echo started",
    "closed files": "env -i setsid sh -c 'exec sleep SECONDS' <&- >&- 2>&- & echo started",
}


@pytest.mark.parametrize("security", [as_user(JANE), ContainerSecurity(has_pid_namespace=True)], ids=["jane", "root"])
@pytest.mark.parametrize("script", DAEMONS.values(), ids=DAEMONS)
@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted", "completed"])
async def test_nothing_outlives_the_pod(runtime, script, security, is_deleted):
    seconds = f"1000.{uuid.uuid4().int % 10**9}"
    script = script.replace("SECONDS", seconds)
    container_request = shell(f"{script}; sleep {seconds if is_deleted else 0}", security=security)
    container = await running(runtime, container_request)
    if is_deleted:
        await container.stop(0)
    await container.wait()
    await runtime.forget(container_request.pod["metadata"]["uid"])
    await eventually(lambda: not [command for command in commands() if seconds.encode() in command])


def commands():
    """The command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines.append((path / "cmdline").read_bytes())
    return lines


SHARED_MEMORY = """
import mmap, sys, time
pages = mmap.mmap(-1, 200 << 20)
for offset in range(0, len(pages), 4096):
    pages[offset] = 1
print("allocated", flush=True)
time.sleep(60)
"""
FORKED_MEMORY = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        data = bytearray(b"x") * (40 << 20)
        time.sleep(60)
time.sleep(60)
"""
SHARED_BY_CHILDREN = """
import os, time
data = bytearray(b"x") * (60 << 20)
children = [pid for _ in range(6) if (pid := os.fork())]
if len(children) == 6:
    time.sleep(1)
else:
    time.sleep(1); os._exit(0)
"""


def python(script, memory, **fields):
    container = {"resources": {"limits": {"memory": memory}}}
    return request(sys.executable, "-c", script, container=container, uid=str(uuid.uuid4()), **fields)


@pytest.mark.parametrize("script", [SHARED_MEMORY, FORKED_MEMORY], ids=["shared memory", "many processes"])
async def test_all_processes_together_cannot_exceed_the_memory_limit(runtime, script):
    container = await runtime.start(python(script, "100Mi", security=as_user(JANE)))
    assert await container.wait() == process.OUT_OF_MEMORY


async def test_memory_that_processes_share_counts_once(runtime):
    container = await runtime.start(python(SHARED_BY_CHILDREN, "150Mi", security=as_user(JANE)))
    assert (await container.wait()).code == 0


async def test_files_in_shared_memory_are_bounded(runtime):
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>&1 | tail -1; ls -s --block-size=M /dev/shm/x"
    container_request = shell(script, container={"resources": {"limits": {"memory": "20Mi"}}})
    assert "20M /dev/shm/x" in await output(runtime, container_request)


async def test_processes_are_bounded(runtime):
    assert str(launch.PROCESS_LIMIT) in await output(runtime, shell("ulimit -u 2>/dev/null || ulimit -p"))


async def test_the_exit_code_and_the_output_arrive(runtime):
    container_request = shell("echo out; exit 42")
    container = await runtime.start(container_request)
    assert (await container.wait()).code == 42
    assert log_of(runtime, container_request) == "out\n"


async def test_stop_is_143_as_without_isolation(runtime):
    container = await running(runtime, shell("echo up; exec sleep 60"))
    await container.stop(20)
    assert (await container.wait()).code == 143


async def test_an_isolated_container_is_adopted(runtime, data_dir):
    container_request = shell("echo up; while [ ! -e go ]; do sleep 0.02; done; exit 5", uid="adopted")
    first = await running(runtime, container_request)
    adopted = await ProcessRuntime(data_dir / "room").adopt(container_request, first.id)
    (runtime._root / "adopted" / "work" / "go").touch()
    assert (await adopted.wait()).code == 5


async def test_exec_enters_the_same_isolation(runtime):
    container_request = shell("echo up; echo here > /tmp/file; exec sleep 60")
    container = await running(runtime, container_request)
    fields = {"uid": container_request.pod["metadata"]["uid"]}
    execution = await runtime.execute(
        shell("id -u; cat /tmp/file; cat /proc/1/cmdline | tr '\\0' ' '; exit 3", **fields)
    )
    text = await all_output(execution)
    assert text.startswith(f"{JANE.uid}\nhere\n/bin/sh")
    assert await execution.wait() == 3
    execution = await runtime.execute(shell("setsid sleep 1000", **fields))
    await container.stop(0)
    assert await execution.wait() == 137


async def test_exec_on_a_terminal(runtime):
    container_request = shell("echo up; exec sleep 60")
    container = await running(runtime, container_request)
    execution = await runtime.execute(shell("tty; id -u", uid=container_request.pod["metadata"]["uid"]), terminal=True)
    assert str(JANE.uid) in await all_output(execution)
    execution.close()
    await container.stop(0)


async def test_volumes_belong_to_the_user_and_the_root_is_read_only_on_request(runtime, data_dir):
    container_request = shell(
        "echo a > /cache/new && cat /cache/key; echo b > work-file; echo c > /tmp/x; cat /cache/new",
        uid="with-volumes",
        security=as_user(JANE, read_only_root=True),
    )
    volume = data_dir / "room" / "volumes" / "with-volumes" / "cache"
    volume.mkdir(parents=True, mode=0o700)
    (volume / "key").write_text("value\n")
    (volume / "key").chmod(0o400)
    command = tuple(Mounts({"/cache": volume}).rewrite(word) for word in container_request.command)
    mounted = request(
        *command, uid="with-volumes", security=container_request.security, mounts=Mounts({"/cache": volume})
    )
    text = await output(runtime, mounted)
    assert text.count("Read-only file system") == 2
    assert text.startswith("value\n")
    assert text.endswith("a\n")


async def test_a_read_only_root_for_the_user_of_the_server(runtime, tmp_path):
    security = ContainerSecurity(has_pid_namespace=True, read_only_root=True)
    text = await output(runtime, shell(f"echo x > {tmp_path}/file; echo y > /dev/null && echo fine", security=security))
    assert "Read-only file system" in text
    assert text.endswith("fine\n")
    assert not (tmp_path / "file").exists()
    (tmp_path / "file").touch()  # here nothing has changed


async def test_root_drops_capabilities_on_request(runtime):
    security = ContainerSecurity(has_pid_namespace=True, dropped_capabilities=tuple(range(len(CAPABILITIES))))
    text = await output(runtime, shell("grep CapEff /proc/self/status; id -u", security=security))
    assert text.split() == ["CapEff:", "0" * 16, "0"]


async def test_a_working_directory_of_another_user_is_refused(runtime, tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(StartError, match=r"cannot enter the working directory .*private"):
        await runtime.start(shell("cat secret", container={"workingDir": str(private)}))


async def test_a_working_directory_in_tmp_is_refused_with_the_reason(runtime, tmp_path_factory):
    directory = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(StartError, match=r"the container has a /tmp of its own, so name a workingDir outside /tmp"):
        await runtime.start(shell("pwd", container={"workingDir": str(directory)}))


async def test_a_directory_below_a_private_one_is_not_entered(runtime):
    private = Path("/root") / f"pykueue-test-{uuid.uuid4().hex}"
    (private / "open").mkdir(parents=True, mode=0o755)
    try:
        with pytest.raises(StartError, match="cannot enter the working directory"):
            await runtime.start(shell("ls", container={"workingDir": str(private / "open")}))
    finally:
        (private / "open").rmdir()
        private.rmdir()


async def test_the_python_of_the_server_can_be_used(runtime):
    text = await output(runtime, python("import sys, msgspec; print(sys.prefix)", "1Gi", security=as_user(JANE)))
    assert text.strip() == sys.prefix


def mounts():
    return Path("/proc/self/mountinfo").read_text()


async def test_mounts_of_a_job_do_not_reach_the_machine(runtime):
    before = mounts()
    container = await running(runtime, shell("echo up; sleep 60"))
    assert mounts() == before
    await container.stop(0)


async def test_temporary_files_go_with_the_container(runtime):
    container_request = shell("dd if=/dev/zero of=/tmp/big bs=1M count=1 2>/dev/null; echo done", uid="temporary")
    assert await output(runtime, container_request) == "done\n"
    await eventually(lambda: not list(runtime._root.glob("temporary/containers/*/*/tmp")))


NUMBERS = {"x86_64": (248, 250), "aarch64": (217, 219)}
ADD_KEY, KEYCTL = NUMBERS.get(platform.machine(), (0, 0))
SESSION, SEARCH, UNLINK = -3, 10, 9
SEARCH_KEY = f"""
import ctypes
libc = ctypes.CDLL(None)
print("found" if libc.syscall({KEYCTL}, {SEARCH}, {SESSION}, b"user", b"pykueue-test", 0) > 0 else "nothing")
"""


@pytest.mark.parametrize(
    ("security", "text"), [(as_user(JANE, has_seccomp_filter=False), "nothing"), (ContainerSecurity(), "found")]
)
async def test_the_keyring_of_the_server_is_not_inherited(runtime, security, text):
    libc = ctypes.CDLL(None)
    key = libc.syscall(ADD_KEY, b"user", b"pykueue-test", b"hunter2", 7, SESSION)
    if key < 0:
        pytest.skip("this kernel has no keyrings")
    try:
        assert (await output(runtime, python(SEARCH_KEY, "1Gi", security=security))).strip() == text
    finally:
        libc.syscall(KEYCTL, UNLINK, key, SESSION)


async def test_a_user_namespace_of_the_job_uncovers_nothing(runtime, data_dir):
    """Inside it the job may mount, but what covers other files is locked."""
    covers = f"/proc {data_dir}/room /tmp /var/tmp /dev/shm /root"
    script = f"for path in {covers}; do umount $path && echo uncovered $path; umount -l $path && echo uncovered; done"
    command = f"unshare --user --map-root-user --mount sh -c '{script}; cat {data_dir}/tokens.csv'"
    text = await output(runtime, shell(command, security=as_user(JANE, has_seccomp_filter=False)))
    assert "uncovered" not in text
    assert "secret-token" not in text


async def test_a_debugger_shares_the_namespaces_of_its_target(runtime):
    target = await running(runtime, shell("echo up; echo here > /tmp/file; exec sleep 60", uid="debugged"))
    script = "cat /tmp/file; cat /proc/1/cmdline | tr '\\0' ' '; id -u; grep Seccomp: /proc/self/status"
    fields = {"name": "debugger", "targetContainerName": "main"}
    debugger = shell(script, uid="debugged", container=fields)
    container = await runtime.start(debugger)
    assert (await container.wait()).code == 0
    text = runtime.log(debugger.pod, "debugger", 0).read_text()
    assert text.startswith("here\n/bin/sh")
    assert text.split()[-3:] == [str(JANE.uid), "Seccomp:", "2"]
    daemon = shell("setsid sleep 1000 & echo up; sleep 1000", uid="debugged", attempt=1, container=fields)
    container = await runtime.start(daemon)
    exit_status, _ = await asyncio.gather(container.wait(), target.stop(0))
    assert exit_status.code == 137
    with pytest.raises(StartError, match="the target container main is not running"):
        await runtime.start(shell("id", uid="debugged", attempt=2, container=fields))


async def test_a_command_without_the_mark_counts_for_the_memory_limit(runtime):
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    container_request = shell("echo up; exec sleep 60", container=limits)
    container = await running(runtime, container_request)
    uid = container_request.pod["metadata"]["uid"]
    command = f'env -i {sys.executable} -c \'exec("""{SHARED_MEMORY}""")\''
    execution = await runtime.execute(shell(command, uid=uid, container=limits))
    assert await container.wait() == process.OUT_OF_MEMORY
    await execution.wait()


async def test_commands_have_the_limits_of_the_container(runtime):
    limits = {"resources": {"limits": {"memory": "100Mi"}}}
    container_request = shell("echo up; exec sleep 60", container=limits)
    container = await running(runtime, container_request)
    uid = container_request.pod["metadata"]["uid"]
    script = "ulimit -d; ulimit -u 2>/dev/null || ulimit -p"
    text = await all_output(await runtime.execute(shell(script, uid=uid, container=limits)))
    assert text.split() == [str(100 << 10), str(launch.PROCESS_LIMIT)]
    await container.stop(0)


@pytest.mark.parametrize("security", [as_user(JANE), ContainerSecurity()], ids=["jane", "same user"])
async def test_descriptors_of_the_server_are_not_inherited(runtime, tmp_path, security):
    """Those of a shell or a service manager that started it, for example."""
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        text = await output(runtime, shell("ls -l /proc/self/fd", security=security))
    assert "secret" not in text
    assert "pipe" not in text


async def test_a_job_cannot_replace_the_directory_of_a_volume(runtime, data_dir):
    """Root writes to it when a container starts again, or is probed."""
    volume = data_dir / "room" / "volumes" / "swapped" / "0"
    volume.mkdir(parents=True, mode=0o700)
    script = f"mv {volume} {volume}x; rmdir {volume}; ln -s /etc {volume}y; echo mine > {volume}/file && echo written"
    text = await output(runtime, shell(script, uid="swapped"))
    assert text.count("Permission denied") == 3
    assert text.endswith("written\n")
    assert [path.name for path in volume.parent.iterdir()] == ["0"]


DEEP = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
os.mkdir("closed", 0)
"""


async def test_a_deep_tree_is_removed_with_its_pod(runtime):
    container_request = request(sys.executable, "-c", DEEP, ".", uid="deep", security=as_user(JANE))
    container = await runtime.start(container_request)
    assert (await container.wait()).code == 0
    await runtime.forget("deep")
    assert "deep" not in runtime.pods()
