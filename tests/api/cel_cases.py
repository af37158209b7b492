"""Expressions with what Kubernetes 1.36 makes of them, and helpers that evaluate them."""

from pykueue.api.cel import mutations, types
from pykueue.api.cel.environment import Environment

VARIABLES = {
    "self": {"a": 1, "l": [1, 2, 3], "s": "abc", "m": {"x": "y"}, "n": None},
    "i": 3,
    "s": "str",
}
ENVIRONMENT = Environment(
    {"self": types.DYN, "i": types.INT, "s": types.STRING},
    has_bindings=True,
    has_mutations=True,
    functions=mutations.add_mutations,
)


def evaluate(text, variables=VARIABLES, limit=1_000_000):
    """The value and the cost."""
    return ENVIRONMENT.compile(text).evaluate(variables, limit)


TRUE = """
1 + 2 * 3 == 7 && 7 / -2 == -3 && -7 % 3 == -1
-9223372036854775808 < 0 && 0x1F == 31 && .5 + 1e3 == 1000.5
1u < 2 && 1 < 1.5 && 2u > 1.5 && dyn(1.0) == 1 && dyn(1u) == 1
!(dyn(true) == 1) && !(dyn('1') == 1) && dyn(null) == null
'a' + "b" + '''c'd''' + r'\\d' == "abc'd\\\\d"
"\\u00e9\\x41\\101\\n" == 'éAA\\n' && b'\\377a'.size() == 2 && bytes('é').size() == 2
'é😀'.size() == 2 && 'abc' < 'abd' && b'a' < b'b' && false < true
[1, 2] + [3] == self.l && self.l[2] == 3 && self.l[?9] == optional.none()
{'a': 1, 'a': 2}.a == 2 && {1: 'x'}[1] == 'x' && {true: 'x'}[true] == 'x'
!(dyn(1) in {true: 'x'}) && 1 in {1: 'x'} && 'x' in self.m && !('y' in self.m)
self.a in [1, 2] && 2 in self.l && dyn(2.0) in self.l && !(9 in self.l)
has(self.a) && !has(self.q) && has(self.m.x) && !has(self.a.b) && !has(self.n.b)
self.?q.?r.orValue(5) == 5 && self.?m.x == optional.of('y') && self.?m.?x.hasValue()
self.?a.optMap(v, v + 1).value() == 2 && optional.of(1).optFlatMap(v, optional.none()) == optional.none()
optional.none().or(optional.of(2)).value() == 2 && optional.ofNonZeroValue('') == optional.none()
[?self.?q, ?self.?a] == [1] && {?'b': self.?q} == {} && [1, 2].last().value() == 2
self.q == 1 || true
!(self.q == 1 && false)
self.l.all(x, x > 0) && self.l.exists(x, x == 3) && self.l.exists_one(x, x == 2)
!self.l.all(x, x.q > 0 && x < 3) && self.l.exists(x, x.q == 1 || x == 3)
self.l.map(x, x * 2) == [2, 4, 6] && self.l.map(x, x > 1, x) == [2, 3] && self.l.filter(x, x > 2) == [3]
self.m.all(k, k == 'x') && self.m.all(k, v, v == 'y') && self.l.exists(i, v, i == 2 && v == 3)
self.l.existsOne(i, v, v == 3) && self.l.transformList(i, v, i > 0, i + v) == [3, 5]
self.m.transformMap(k, v, v + k) == {'x': 'yx'} && self.m.transformMapEntry(k, v, {v: k}) == {'y': 'x'}
cel.bind(x, self.l, x.all(y, y in x)) && cel.bind(unused, 1 / 0, true)
[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sortBy(x, x) == ['a', 'b'] && self.l.reverse() == [3, 2, 1]
[1, 1, 2].distinct() == [1, 2] && [[1], [2]].flatten() == [1, 2] && lists.range(3) == [0, 1, 2]
self.l.slice(1, 3) == [2, 3] && self.l.sum() == 6 && self.l.max() == 3 && self.l.min() == 1
self.l.isSorted() && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1.5, 2.0].sum() == 3.5
sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])
'hello'.charAt(1) == 'e' && 'hello'.indexOf('l', 3) == 3 && 'hello'.lastIndexOf('l') == 3
'Äb'.lowerAscii() == 'Äb' && 'aB'.upperAscii() == 'AB' && ' a '.trim() == 'a'
'aXbX'.replace('X', '-', 1) == 'a-bX' && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ''.split('') == []
['a', 'b'].join('-') == 'a-b' && 'hello'.substring(1, 3) == 'el' && strings.quote('a"b') == '"a\\\\"b"'
'%s %d %.1f %x %b %%'.format(['a', 5, 2.25, 255, true]) == 'a 5 2.2 ff 1 %'
'%s'.format([[1, 'a', 2.5, null, {'k': true}]]) == '[1, "a", 2.500000, null, {"k":true}]'
'%e'.format([1234.5]) == '1.234500×10⁰³' && '%f'.format([1234.5]) == '1,234.500000'
'abc'.matches('^a.c$') && 'abc123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]', 1) == ['1']
string(1.5) == '1.5' && string(100000000.0) == '1e+08' && string(0.0001) == '0.0001' && string(1e-5) == '1e-05'
string(true) == 'true' && string(b'a') == 'a' && string(5u) == '5' && bool('T') && int('+5') == 5
int(-1.9) == -1 && uint(1.9) == 1u && double('1.5') == 1.5 && int(timestamp('1970-01-01T00:00:01Z')) == 1
timestamp('2020-01-01T00:00:00+01:00') == timestamp('2019-12-31T23:00:00Z')
string(timestamp('2020-01-01T00:00:00.120Z')) == '2020-01-01T00:00:00.12Z'
timestamp('2020-01-01T23:30:00Z').getHours('+01:00') == 0 && timestamp('2020-01-01T23:30:00Z').getDate() == 1
timestamp('2020-01-01T23:30:00Z').getHours('America/New_York') == 18 && timestamp(0).getFullYear() == 1970
timestamp('2020-01-05T00:00:00Z').getDayOfWeek() == 0 && timestamp('2020-02-01T00:00:00Z').getDayOfYear() == 31
duration('1h30m').getMinutes() == 90 && string(duration('1h30m0.5s')) == '5400.5s' && duration('-1.5h') < duration('0s')
timestamp('2020-01-01T00:00:00Z') + duration('1h') - timestamp('2020-01-01T00:00:00Z') == duration('60m')
type(1) == int && type(self.l) == list && type(null) == null_type && type(type(1)) == type && type(1u) != int
type(timestamp(0)) == google.protobuf.Timestamp && type(optional.none()) == optional_type
quantity('50k').asInteger() == 50000 && quantity('1') == quantity('1000m') && !quantity('1000m').isInteger()
quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1').add(2).compareTo(quantity('3')) == 0
quantity('1.5').asApproximateFloat() == 1.5 && sign(quantity('-5')) == -1 && !isQuantity('1Zi') && isQuantity('1e3')
quantity('0.1').add(quantity('0.2')) == quantity('300m') && quantity('5').sub(quantity('2')) == quantity('3')
semver('1.2.3-rc.10').isGreaterThan(semver('1.2.3-rc.9')) && semver('1.2.3').compareTo(semver('1.2.3-rc')) == 1
semver('v1.2', true).minor() == 2 && !isSemver('1.2') && isSemver('01.2', true) && semver('1.2.3+a') == semver('1.2.3+b')
url('https://u:p@Example.com:80/a%20b?x=1&x=2#f').getHost() == 'Example.com:80'
url('https://[::1]:80/').getHostname() == '::1' && url('https://h/a b').getEscapedPath() == '/a%20b'
url('https://h/?x=1&x=2').getQuery() == {'x': ['1', '2']} && !isURL('../x') && isURL('/x') && !isURL('http://a:b/')
ip('2001:DB8::1') == ip('2001:db8::1') && string(ip('2001:DB8::1')) == '2001:db8::1' && !ip.isCanonical('2001:DB8::1')
ip('127.0.0.1').isLoopback() && ip('10.0.0.1').isGlobalUnicast() && ip('::1').family() == 6 && !isIP('1.2.3.04')
cidr('10.0.0.0/8').containsIP('10.9.9.9') && !cidr('10.0.0.0/8').containsIP(ip('::1')) && !isCIDR('10.0.0.0/33')
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && string(cidr('10.1.2.3/8').masked()) == '10.0.0.0/8'
cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.0/8').ip() == ip('10.0.0.0')
!format.dns1123Label().validate('my-name').hasValue() && format.dns1123Label().validate('A').hasValue()
format.named('uuid').value().validate('x').value() == ['does not match the UUID format'] && !format.named('q').hasValue()
!format.dns1123LabelPrefix().validate('a-').hasValue() && !format.byte().validate('aGk=').hasValue()
jsonpatch.escapeKey('a/b~c') == 'a~1b~0c' && Object{a: 1}.a == 1 && Object{?b: self.?q} == Object{}
(self.a == 1 ? self.l : [])[0] == 1 && (true ? self : self).a == 1 && .self.a == 1
[1, 2, 3].exists(x, x == i) && s.startsWith('st') && s.endsWith('r') && s.contains('t')
!!true && - -1 == 1 && 2 - -1 == 3 && 3 -1 == 2
"""
ERRORS = """
1 / 0 => division by zero
5 % 0 => modulus by zero
9223372036854775807 + 1 => integer overflow
-(-9223372036854775808) => integer overflow
1u - 2u => unsigned integer overflow
self.q => no such key: q
self.a.b => no such key: b
self.l[9] => index out of bounds: 9
self.l['a'] => unsupported index type 'string' in list
{'a': 1}['b'] => no such key: b
dyn(1) < 'a' => no such overload
true && self.a => no such overload
self.a.startsWith('a') => no such overload: startsWith(int, string)
self.l.map(x, x.q) => no such key: q
self.l.all(x, x.q == 1) => no such key: q
self.a.all(x, true) => got 'int', expected iterable type
optional.none().value() => optional.none() dereference
[].max() => max called on empty list
'abc'.substring(5) => index out of range: 5
self.l.slice(2, 9) => cannot slice(2, 9), list is length 3
self.s.matches(self.s + '(') => error parsing regexp: missing ): abc(
int(self.s) => type conversion error from 'string' to 'int'
duration(self.s) => type conversion error from 'string' to 'google.protobuf.Duration'
timestamp('9999-12-31T23:59:59Z') + duration('1h') => timestamp overflow
timestamp('2020-01-01T00:00:00Z').getHours('foo/bar') => unknown time zone foo/bar
quantity('1000m').asInteger() => cannot convert value to integer
semver('1.2') => No Major.Minor.Patch elements found
url('a') => URL parse error during conversion from string: parse "a": invalid URI for request
ip('::ffff:1.2.3.4') => IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed
self.l.transformMapEntry(i, v, {'k': v}) => insert failed: key k already exists
"""
REFUSALS = """
1 + => 1:4: Syntax error: mismatched input '<EOF>' expecting
a b => 1:3: Syntax error: extraneous input 'b' expecting <EOF>
[1, 2 => 1:6: Syntax error: mismatched input '<EOF>' expecting {']', ','}
self.`a` => 1:6: unsupported syntax: '`'
'abc => 1:1: Syntax error: token recognition error at: '''
for => 1:1: reserved identifier: for
9223372036854775808 => 1:1: invalid int literal
x.y => 1:1: undeclared reference to 'x' (in container '')
foo(1) => 1:4: undeclared reference to 'foo' (in container '')
s.foo() => 1:6: undeclared reference to 'foo' (in container '')
1 + 'a' => 1:3: found no matching overload for '_+_' applied to '(int, string)'
i.startsWith('a') => 1:13: found no matching overload for 'startsWith' applied to 'int.(string)'
1.0 == 1 => 1:5: found no matching overload for '_==_' applied to '(double, int)'
1 ? 2 : 3 => 1:3: found no matching overload for '_?_:_' applied to '(int, int, int)'
i.b => 1:2: type 'int' does not support field selection
1 && true => 1:1: expected type 'bool' but found 'int'
[1, 'a'] => 1:5: expected type 'int' but found 'string'
[1, self.a] => 1:9: expected type 'int' but found 'dyn'
{'a': 1, 'b': 'c'} => 1:15: expected type 'int' but found 'string'
i.all(x, true) => 1:1: expression of type 'int' cannot be range of a comprehension
self.l.map(5, x) => 1:12: argument is not an identifier
self.l.all(x, x, true) => 1:15: duplicate variable name: x
has(self) => 1:5: invalid argument to has() macro
'a'.matches('(') => 1:13: invalid matches argument
timestamp('2020-13-01T00:00:00Z') => 1:11: invalid timestamp argument
duration('1d') => 1:10: invalid duration argument
'%d'.format(['a']) => 1:14: error during formatting: decimal clause can only be used on integers, was given string
'%d'.format([1, 2]) => 1:12: too many arguments supplied to string.format (expected 1, got 2)
Foo{a: 1} => 1:4: undeclared reference to 'Foo' (in container '')
JSONPatch{q: 1} => 1:11: undefined field 'q'
JSONPatch{op: 1} => 1:11: expected type of field 'op' is 'string' but provided type is 'int'
math.greatest(1, 2) => 1:14: undeclared reference to 'greatest' (in container '')
int('x') => type conversion error from 'string' to 'int'
"""
COSTS = """
1 + 2 => 1
self.a => 2
self.a.b || true => 3
has(self.m.x) => 2
self.?q.?r.orValue(3) => 1
self.a == 1 ? self.s : self.m.x => 4
self.l[self.a] => 4
self.l.all(x, x > 0) => 18
self.l.all(x, x > 5) => 10
self.l.exists(x, x == 1) => 12
self.l.exists_one(x, x == 3) => 12
self.l.map(x, x + 1) => 45
self.l.map(x, 5) => 9
self.l.filter(x, x > 1) => 35
self.m.transformMap(k, v, v + k) => 9
self.l.transformMapEntry(i, v, {string(v): i}) => 108
cel.bind(x, self.l, x.size()) => 4
self.?a.optMap(v, v + 1) => 9
[self.a, self.a] => 14
{'k': self.a} => 32
[1, 2, 3] => 0
self.a in [1, 2] => 2
'aaaaaaaaaaaaaaaaaaaaaaaaaa' == 'aaaaaaaaaaaaaaaaaaaaaaaaaa' => 3
s + 'x' => 2
s.matches('^s.*r$') => 3
self.s.split('').join('-') => 4
'a,b'.split(',').map(x, x.upperAscii()) => 30
[3, 1, 2].sort() => 29
lists.range(3) => 14
sets.contains([1, 2], [1]) => 3
quantity('1').isLessThan(quantity('2')) => 3
cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25') => 7
format.uri().validate('x') => 277
timestamp('2020-01-01T00:00:00Z') < timestamp('2021-01-01T00:00:00Z') => 1
"""


def lines(table):
    return [line for line in table.strip().splitlines() if line]


def pairs(table):
    return [tuple(line.split(" => ", 1)) for line in lines(table)]
