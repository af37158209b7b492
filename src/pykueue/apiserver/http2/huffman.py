"""The Huffman code of HPACK (RFC 7541, appendix B).

The code is canonical, so the lengths of the codes define it. Decoding goes byte by byte through a
table whose entries are made when they are first needed.
"""

_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b08060606"
    "0505050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617171717171817"
    "181816171817171717151617161717181615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b14181415161515171616191918181a17"
    "1a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
"""The bits of the code of each symbol. The last symbol ends a string and must not appear."""

_END_OF_STRING = 256
_LONGEST_PADDING = 7


class HuffmanError(ValueError):
    """The bytes are no string in this code."""


class _Node:
    __slots__ = ("children", "is_padding", "steps", "symbol")

    def __init__(self) -> None:
        self.children: list[_Node | None] = [None, None]
        self.symbol = -1
        self.is_padding = False
        """Whether a string may end here."""
        self.steps: list[tuple[_Node, bytes] | None] = [None] * 256
        """By the next byte: the node after it, and the symbols that it completes."""


def _tree() -> _Node:
    root = _Node()
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        _add(root, code, length, symbol)
        code += 1
    node: _Node | None = root
    for _ in range(_LONGEST_PADDING + 1):
        assert node is not None, "the end of a string has the longest code"
        node.is_padding = True
        node = node.children[1]
    return root


def _add(root: _Node, code: int, length: int, symbol: int) -> None:
    node = root
    for bit in range(length - 1, -1, -1):
        side = code >> bit & 1
        child = node.children[side]
        if child is None:
            child = node.children[side] = _Node()
        node = child
    node.symbol = symbol


_ROOT = _tree()


def _step(start: _Node, byte: int) -> tuple[_Node, bytes]:
    node, symbols = start, bytearray()
    for bit in range(7, -1, -1):
        child = node.children[byte >> bit & 1]
        if child is None or child.symbol == _END_OF_STRING:
            raise HuffmanError("the end of a string is encoded")
        if child.symbol >= 0:
            symbols.append(child.symbol)
            child = _ROOT
        node = child
    step = start.steps[byte] = (node, bytes(symbols))
    return step


def decode(data: bytes) -> bytes:
    """The string; HuffmanError if there is none."""
    node, chunks = _ROOT, []
    for byte in data:
        node, symbols = node.steps[byte] or _step(node, byte)
        chunks.append(symbols)
    if not node.is_padding:
        raise HuffmanError("the padding is not the beginning of the end")
    return b"".join(chunks)
