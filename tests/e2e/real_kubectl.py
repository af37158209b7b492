"""Real kubectl in one namespace. It records what it creates, so that a cluster can be cleaned."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

KUBECTL = shutil.which("kubectl")
_CREATED = re.compile(r"^(\S+/\S+) (?:created|serverside-applied)$", re.MULTILINE)


class Created(NamedTuple):
    namespace: str
    name: str
    """Kind, group and name as kubectl prints them: `job.batch/sweep`."""


CREATED: list[Created] = []


@dataclass(frozen=True, kw_only=True)
class Kubectl:
    """`fails` returns the error output. Without a namespace, that of the manifests is used."""

    kubeconfig: Path
    namespace: str
    home: Path
    records_created: bool = True

    def run(self, *arguments, stdin=None, environment=(), timeout=60):
        env = {**self._environment, **dict(environment)}
        command = self._command(arguments)
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, env=env, timeout=timeout, check=False
        )
        if self.records_created:
            CREATED.extend(Created(self.namespace, name) for name in _CREATED.findall(done.stdout))
        return done

    def __call__(self, *arguments, stdin=None, environment=()):
        done = self.run(*arguments, stdin=stdin, environment=environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def everywhere(self):
        return replace(self, namespace="")

    def fails(self, *arguments, stdin=None):
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} did not fail\n{done.stdout}"
        return done.stderr

    def json(self, *arguments):
        return json.loads(self(*arguments, "-o", "json"))

    def apply(self, *objects, options=()):
        return self(
            "apply", *options, "-f", "-", stdin=json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})
        )

    def popen(self, *arguments):
        return subprocess.Popen(self._command(arguments), stdout=subprocess.PIPE, text=True, env=self._environment)

    @property
    def _environment(self):
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home)}

    def _command(self, arguments):
        scope = ["-n", self.namespace] if self.namespace else []
        return [KUBECTL, f"--cache-dir={self.home}/cache", *scope, *arguments]
