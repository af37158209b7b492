"""An expression is stopped before it has done much, whatever its loops read."""

import pytest

from pykueue.api.cel import programs
from pykueue.api.cel.errors import EvaluationError
from pykueue.api.cel.limits import Budget

LIST = [f"item-{number}" for number in range(9000)]
VALUE = {
    "l": LIST,
    "short": LIST[:90],
    "m": {text: text for text in LIST},
    "o": [{"name": text, "ports": [1, 2]} for text in LIST[:3000]],
    "s": "x" * 2_000_000,
    "t": "x" * 2_000_000 + "y",
    "limit": 7,
    "r": "[ab]*a[ab]{900}" * 300,
}
EXPENSIVE = [
    "self.l.all(x, self.l == self.l)",
    "self.l.all(x, self.o != [{}])",
    "self.l.all(x, x in self.l)",
    "self.l.all(x, self.o in [self.o])",
    "self.l.all(x, self.l.exists(y, x == y))",
    "self.l.exists(x, self.s.contains(x))",
    "self.l.exists(x, self.s.matches(x))",
    "self.l.all(x, sets.contains(self.l, [x]))",
    "self.l.all(x, self == self)",
    "self.l.all(x, [self.l].size() == 1 && [self.l] == [self.l])",
    "self.l.all(x, {'a': self.o} == {'a': self.o})",
    "self.l.all(x, [self.s] != [self.t])",
    "self.l.all(x, self.s + x != x)",
    "self.l.all(x, '%s'.format([self.s]) != x)",
    "self.l.all(x, '%s'.format([self.o]) != x)",
    "self.l.all(x, self.l + self.l != [])",
    "self.short.all(a, self.short.all(b, self.l == self.l))",
    "self.short.all(a, self.m.all(k, self.m == self.m))",
    "self.l.all(x, self.?l.orValue([]) == self.l)",
    "self.l.all(x, self.s.lowerAscii() == x)",
    "self.l.all(x, self.s.replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy') == x)",
    "self.r.split('').all(x, self.l != [x])",
    "self.l.distinct().size() > 0",
]
CHEAP = [
    "self.l.all(x, x.startsWith('item'))",
    "self.short.all(x, self.l.size() > self.limit)",
    "self.m.all(k, self.m[k] == k)",
    "self.o.all(x, x.ports.all(p, p > 0) && x.name != '')",
    "self.o.all(x, x.ports.exists(p, p == 1))",
    "self.short.all(a, self.short.exists_one(b, a == b))",
    "self.l == self.l && self.s.size() > 0",
    "self.short.all(x, x in self.short)",
    "self.l.all(x, !(x in self.m) || true)",
]


@pytest.mark.parametrize("rule", EXPENSIVE)
def test_loops_over_large_values_are_refused(rule):
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        programs.check_rule(rule, VALUE, None, Budget())


@pytest.mark.parametrize("rule", EXPENSIVE)
def test_loops_over_small_values_run(rule):
    small = {"l": ["a", "b"], "short": ["a"], "m": {"c": "c"}, "o": [{"name": "a"}], "s": "d", "t": "e", "r": "e"}
    assert isinstance(programs.check_rule(rule, small, None, Budget()), bool)


@pytest.mark.parametrize("rule", CHEAP)
def test_loops_that_read_little_run_on_large_values(rule):
    assert programs.check_rule(rule, VALUE, None, Budget()) is True
