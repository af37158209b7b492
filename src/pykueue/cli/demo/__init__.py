"""`pykueue demo`: one of the examples as a short play on an embedded cluster, shown live or as plain lines."""
