"""What a long-running process does first."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
from pykueue.app import process
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, min(hard, 1000) if hard != resource.RLIM_INFINITY else 1000))
process.prepare(process.LogOptions(level="info"))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_limit_of_descriptors_is_raised_as_far_as_it_may_be():
    output = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    soft, hard = map(int, output.split())
    assert soft == hard > 200
