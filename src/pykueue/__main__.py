"""`python -m pykueue` is the same command as `pykueue`."""

from pykueue.cli.main import main

main()
