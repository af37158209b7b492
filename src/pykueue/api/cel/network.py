"""Kubernetes' libraries of IP addresses, networks and URLs."""

import functools
import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

from pykueue.api.cel import cost, types
from pykueue.api.cel.errors import CelError
from pykueue.api.cel.functions import Functions
from pykueue.api.cel.values import Opaque

_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class IP(Opaque):
    __slots__ = ("address",)
    cel_type = types.Type("opaque", "net.IP")

    def __init__(self, address: Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IP) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    @property
    def cel_size(self) -> int:
        return self.address.max_prefixlen // 8


class CIDR(Opaque):
    """An address with a length; the bits after it need not be zero."""

    __slots__ = ("address", "length")
    cel_type = types.Type("opaque", "net.CIDR")

    def __init__(self, address: Address, length: int) -> None:
        self.address = address
        self.length = length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDR) and (self.address, self.length) == (other.address, other.length)

    def __hash__(self) -> int:
        return hash((self.address, self.length))

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    @property
    def cel_size(self) -> int:
        return -(-self.length // 8)

    def contains(self, address: Address) -> bool:
        shift = self.address.max_prefixlen - self.length
        return address.version == self.address.version and int(address) >> shift == int(self.address) >> shift


def _address(text: str) -> Address:
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        message = f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}")'
        raise CelError(f"{message}: unable to parse IP") from None
    _refuse_mapped(address, text)
    return address


def _refuse_mapped(address: Address, text: str) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')


@functools.lru_cache(maxsize=1024)
def _ip(text: str) -> IP:
    return IP(_address(text))


@functools.lru_cache(maxsize=1024)
def _cidr(text: str) -> CIDR:
    start, _, bits = text.rpartition("/")
    try:
        address = None if "%" in text else ipaddress.ip_address(start)
    except ValueError:
        address = None
    if address is None or not _LENGTH.fullmatch(bits) or int(bits) > address.max_prefixlen:
        message = "network address parse error during conversion from string"
        raise CelError(f'{message}: {message}: netip.ParsePrefix("{text}")')
    _refuse_mapped(address, text)
    return CIDR(address, int(bits))


def _parses(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def parses(text: str) -> bool:
        try:
            read(text)
        except CelError:
            return False
        return True

    return parses


def _masked(network: CIDR) -> CIDR:
    shift = network.address.max_prefixlen - network.length
    return CIDR(type(network.address)(int(network.address) >> shift << shift), network.length)


def _contains_network(network: CIDR, other: CIDR) -> bool:
    return network.length <= other.length and network.contains(other.address)


def _is_link_local_multicast(value: IP) -> bool:
    if value.address.version == 4:
        return int(value.address) >> 8 == 0xE00000
    return int(value.address) >> 112 & 0xFF0F == 0xFF02


def _is_global_unicast(value: IP) -> bool:
    address = value.address
    is_broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    return not (
        is_broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _contains_cost(network: CIDR, other: Any) -> int:
    return -(-2 * network.cel_size // 10) + (cost.parsing(other) if isinstance(other, str) else 0)


def _contains_network_cost(network: CIDR, other: Any) -> int:
    return _contains_cost(network, other) + -(-network.cel_size // 10) + 1


def add_addresses(functions: Functions) -> None:
    add = functions.add
    add("ip", "string_to_ip", "(string) -> net.IP", _ip, cost=cost.parsing)
    add("ip", "cidr_ip", "net.CIDR.() -> net.IP", lambda network: IP(network.address))
    add("family", "ip_family", "net.IP.() -> int", lambda value: value.address.version)
    add(
        "ip.isCanonical",
        "ip_is_canonical",
        "(string) -> bool",
        lambda t: str(_address(t)) == t,
        cost=cost.parsing_twice,
    )
    add("isUnspecified", "ip_is_unspecified", "net.IP.() -> bool", lambda value: value.address.is_unspecified)
    add("isLoopback", "ip_is_loopback", "net.IP.() -> bool", lambda value: value.address.is_loopback)
    add("isLinkLocalMulticast", "ip_is_link_local_multicast", "net.IP.() -> bool", _is_link_local_multicast)
    add("isLinkLocalUnicast", "ip_is_link_local_unicast", "net.IP.() -> bool", lambda v: v.address.is_link_local)
    add("isGlobalUnicast", "ip_is_global_unicast", "net.IP.() -> bool", _is_global_unicast)
    add("isIP", "is_ip", "(string) -> bool", _parses(_ip), cost=cost.parsing)
    add("string", "ip_to_string", "(net.IP) -> string", lambda value: str(value.address))
    add("cidr", "string_to_cidr", "(string) -> net.CIDR", _cidr, cost=cost.parsing)
    add("isCIDR", "is_cidr", "(string) -> bool", _parses(_cidr), cost=cost.parsing)
    add("string", "cidr_to_string", "(net.CIDR) -> string", str)
    add("prefixLength", "cidr_prefix_length", "net.CIDR.() -> int", lambda network: network.length)
    add("masked", "cidr_masked", "net.CIDR.() -> net.CIDR", _masked)
    contains = "net.CIDR.({}) -> bool"
    add(
        "containsIP",
        "cidr_contains_ip_string",
        contains.format("string"),
        lambda network, text: network.contains(_address(text)),
        cost=_contains_cost,
    )
    add(
        "containsIP",
        "cidr_contains_ip_ip",
        contains.format("net.IP"),
        lambda network, value: network.contains(value.address),
        cost=_contains_cost,
    )
    add(
        "containsCIDR",
        "cidr_contains_cidr_string",
        contains.format("string"),
        lambda network, text: _contains_network(network, _cidr(text)),
        cost=_contains_network_cost,
    )
    add(
        "containsCIDR",
        "cidr_contains_cidr",
        contains.format("net.CIDR"),
        _contains_network,
        cost=_contains_network_cost,
    )


class URL(Opaque):
    __slots__ = ("host", "path", "query", "scheme", "text")
    cel_type = types.Type("struct", "kubernetes.URL")

    def __init__(self, text: str, *, scheme: str, host: str = "", path: str = "", query: str) -> None:
        self.text = text
        self.scheme = scheme
        self.host = host
        self.path = path
        self.query = query

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URL) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_BAD_HOST = re.compile(r"[\s<>\"\\^`{|}#]")
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_UNESCAPED_PATH = "$&+,/:;=@~!*'()%[]"


def parse_url(text: str) -> URL:
    """An absolute URL or a path, as Go's `url.ParseRequestURI` accepts it."""
    if not text:
        raise CelError('parse "": empty url')
    if _CONTROL.search(text):
        raise CelError(f"parse {_quoted(text)}: net/url: invalid control character in URL")
    if text[0] == ":":
        raise CelError(f'parse "{text}": missing protocol scheme')
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    rest = text[match.end() :] if match else text
    before_fragment = rest.partition("#")[0]
    path, _, query = before_fragment.partition("?")
    if not rest.partition("?")[0].startswith("/"):
        if scheme:
            return URL(text, scheme=scheme, query=query)
        raise CelError(f'parse "{text}": invalid URI for request')
    host = ""
    if scheme and path.startswith("//"):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        host = _host(text, authority)
    if _BAD_ESCAPE.search(rest.partition("?")[0]):
        bad = _BAD_ESCAPE.search(rest)
        assert bad is not None
        raise CelError(f'parse "{text}": invalid URL escape "{rest[bad.start() : bad.start() + 3]}"')
    return URL(text, scheme=scheme, host=host, path=path, query=query)


def _quoted(text: str) -> str:
    return '"' + text.encode("unicode_escape").decode() + '"'


def _host(text: str, authority: str) -> str:
    host = authority.rpartition("@")[2]
    bad = _BAD_HOST.search(host)
    if bad is not None:
        raise CelError(f'parse "{text}": invalid character "{bad[0]}" in host name')
    address, bracket, port = host.rpartition("]") if host.startswith("[") else ("", "", "")
    if host.startswith("["):
        if not bracket or not address:
            raise CelError(f"parse \"{text}\": missing ']' in host")
    else:
        port = f":{host.partition(':')[2]}" if ":" in host else ""
    if not _PORT.fullmatch(port):
        raise CelError(f'parse "{text}": invalid port "{port}" after host')
    return urllib.parse.unquote(host)


def _url(text: str) -> URL:
    try:
        return parse_url(text)
    except CelError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def _hostname(value: URL) -> str:
    if value.host.startswith("["):
        return value.host[1:].partition("]")[0]
    return value.host.partition(":")[0]


def _port(value: URL) -> str:
    return value.host.rpartition("]")[2].partition(":")[2]


def _query(value: URL) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for pair in value.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        name, _, item = (urllib.parse.unquote_plus(part) for part in pair.partition("="))
        result.setdefault(name, []).append(item)
    return result


def _is_url_cost(_: str) -> int:
    return 1 + cost.PARSING


def add_urls(functions: Functions) -> None:
    add, of = functions.add, "kubernetes.URL"
    add("url", "string_to_url", f"(string) -> {of}", _url, cost=cost.parsing)
    add("isURL", "is_url_string", "(string) -> bool", _parses(_url), cost=_is_url_cost)
    add("getScheme", "url_get_scheme", f"{of}.() -> string", lambda value: value.scheme)
    add("getHost", "url_get_host", f"{of}.() -> string", lambda value: value.host)
    add("getHostname", "url_get_hostname", f"{of}.() -> string", _hostname)
    add("getPort", "url_get_port", f"{of}.() -> string", _port)
    add(
        "getEscapedPath",
        "url_get_escaped_path",
        f"{of}.() -> string",
        lambda value: urllib.parse.quote(value.path, safe=_UNESCAPED_PATH),
    )
    add("getQuery", "url_get_query", f"{of}.() -> map(string, list(string))", _query)
