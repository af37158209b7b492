"""An expression whose loops read large values is refused before it runs."""

import time

import pytest

from pykueue.api.cel import EvaluationError
from pykueue.api.cel_library import compile_rule

LIST = [f"item-{number}" for number in range(9000)]
VALUE = {
    "l": LIST,
    "short": LIST[:90],
    "m": {text: text for text in LIST},
    "o": [{"name": text, "ports": [1, 2]} for text in LIST[:3000]],
    "s": "x" * 2_000_000,
    "limit": 7,
    "r": "[ab]*a[ab]{900}" * 300,
}
EXPENSIVE = [
    "self.l.all(x, self.l == self.l)",
    "self.l.all(x, self.o != [])",
    "self.l.all(x, x in self.l)",
    "self.l.all(x, !(x in self.m))",
    "self.l.exists(x, self.s == x)",
    "self.l.exists(x, self.s.contains(x))",
    "self.l.exists(x, self.s.matches(x))",
    "self.l.all(x, sets.contains(self.l, [x]))",
    "self.l.all(x, self == self)",
    "self.l.all(x, [self.l].size() == 1 && [self.l] == [self.l])",
    "self.l.all(x, {'a': self.o} == {'a': self.o})",
    "self.short.all(a, self.short.all(b, self.l == self.l))",
    "self.short.all(a, self.m.all(k, self.m == self.m))",
    "self.l.all(x, self.?l.orValue([]) == [])",
    "self.l.all(x, self.s.lowerAscii() == x)",
    "self.r.split('').all(x, self.l != [x])",
]
COPIES = "cel.bind(y, self.short, self.short.all(x, self.short.all(z, y == y)))"
CHEAP = [
    "self.l.all(x, x.startsWith('item'))",
    "self.l.all(x, self.l.size() > self.limit)",
    "self.m.all(k, self.m[k] == k)",
    "self.o.all(x, x.ports.all(p, p > 0) && x.name != '')",
    "self.o.all(x, x.ports.exists(p, p == 1))",
    "self.short.all(a, self.short.exists_one(b, a == b))",
    "self.l == self.l && self.s.size() > 0",
    "self.short.all(x, x in self.short)",
    "self.o.all(x, x.?ports.orValue([]).all(p, x.name != '' && p > self.?limit.orValue(0) - 9))",
]


@pytest.mark.parametrize("rule", EXPENSIVE)
def test_loops_over_large_values_are_refused(rule):
    check = compile_rule(rule)
    began = time.process_time()
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        check(VALUE, None)
    assert time.process_time() - began < 0.5


def test_a_bound_name_may_be_any_value():
    large = {"short": ["x" * 4000] * 400}
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        compile_rule(COPIES)(large, None)


@pytest.mark.parametrize("rule", EXPENSIVE)
def test_loops_over_small_values_run(rule):
    small = {"l": ["a", "b"], "short": ["a"], "m": {"c": "c"}, "o": [{"name": "a"}], "s": "d", "r": "e"}
    assert isinstance(compile_rule(rule)(small, None), bool)


@pytest.mark.parametrize("rule", CHEAP)
def test_loops_that_read_little_run_on_large_values(rule):
    began = time.process_time()
    assert compile_rule(rule)(VALUE, None) is True
    assert time.process_time() - began < 2
