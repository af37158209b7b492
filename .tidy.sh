. /work/env.sh
ruff check --fix -q src/pykueue/translate src/pykueue/simulate src/pykueue/cli/conformance.py tests/translate tests/simulate tests/conformance tests/cli/test_conformance.py benchmarks 2>/dev/null
ruff format -q src/pykueue/translate src/pykueue/simulate src/pykueue/cli/conformance.py tests/translate tests/simulate tests/conformance tests/cli/test_conformance.py
ruff check && mypy
