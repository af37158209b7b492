"""What we decide: pure. No clock, no I/O, no randomness, no logging, no asyncio.

Invariant: the same events in give the same decisions out, byte for byte. Time arrives inside events. Integers only.
"""
