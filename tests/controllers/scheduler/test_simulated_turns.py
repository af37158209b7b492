"""The whole system holds its invariants when every cycle pauses after every entry."""

from pykueue.controllers.scheduler import cycle_runner
from pykueue.simulate import campaign


def test_a_simulation_with_the_shortest_turns_finds_no_fault(monkeypatch):
    monkeypatch.setattr(cycle_runner, "TURN_NS", 0)
    assert campaign.run(12, 3000).digest == campaign.run(12, 3000).digest
