"""Recording: the events of the engine in a ring of files, and their replay.

The scheduler gives every event to a `RingWriter`; `pykueue replay` reads the ring and gives the
events to a fresh engine, which decides as the engine did then, or as another policy would.
"""
