"""Pod runtimes behind one protocol: `process` runs commands here, `simulated` only lets time pass."""
