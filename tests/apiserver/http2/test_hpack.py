"""Header blocks mean what the hpack library, another implementation, reads in them."""

import hpack as oracle
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykueue.apiserver.http2 import hpack, huffman

names = st.sampled_from([":path", ":method", "accept", "authorization", "x-a", "x-b"])
values = st.text(st.characters(codec="latin-1"), max_size=60)
fields = st.lists(st.tuples(names, values), max_size=8)
table_sizes = st.sampled_from([None, None, None, 0, 100, 4096])
REQUEST = [(":method", "GET"), (":path", "/a"), ("authorization", "Bearer x")]


def latin(decoded):
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in decoded]


@given(st.lists(st.tuples(fields, st.booleans(), table_sizes), max_size=12))
def test_blocks_of_another_encoder_are_decoded(blocks):
    encoder, decoder = oracle.Encoder(), hpack.Decoder()
    for block, is_huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        raw = [(name.encode(), value.encode("latin-1")) for name, value in block]
        assert decoder.decode(encoder.encode(raw, huffman=is_huffman)) == block


@given(st.lists(st.binary(max_size=80), max_size=4))
@example([b"\x82\x84", b"\x40\x01a\x01b", b"\xbe"])
@example([b"\x3f\xe1\x1f\xbe"])
@example([b"\x00\x81\xff\x81\xff"])
def test_any_bytes_are_decoded_as_by_another_decoder_or_refused(blocks):
    ours, theirs = hpack.Decoder(), oracle.Decoder()
    for block in blocks:
        try:
            decoded = ours.decode(block)
        except hpack.HpackError:
            return
        assert decoded == latin(theirs.decode(block, raw=True))


@given(st.sampled_from([200, 201, 404, 409, 429, 503]), st.lists(st.tuples(names, st.text(max_size=300)), max_size=6))
def test_responses_are_read_by_another_decoder(status, block):
    expected = [(name, value.encode("utf-8", "replace").decode()) for name, value in block]
    read = oracle.Decoder(max_header_list_size=1 << 20).decode(hpack.encode(status, block))
    assert [tuple(field) for field in read] == [(":status", str(status)), *expected]


@given(st.binary(max_size=200))
def test_strings_are_decoded_from_the_code_of_another_encoder(data):
    encoder = oracle.huffman.HuffmanEncoder(
        oracle.huffman_constants.REQUEST_CODES, oracle.huffman_constants.REQUEST_CODES_LENGTH
    )
    assert huffman.decode(encoder.encode(data)) == data


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\xff", b"\x00", b"\x1c\xff\xff"])
def test_bad_padding_is_refused(data):
    with pytest.raises(huffman.HuffmanError):
        huffman.decode(data)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\xbe",
        b"\x40",
        b"\x40\x05ab",
        b"\x40\x01a",
        b"\x82\x20",
        b"\x3f\xe2\x1f",
        b"\x20\x20\x20\x82",
        b"\x00\x7f\xff\xff\xff\xff\x0f",
    ],
    ids=["0", "huge", "absent", "cut", "short", "no value", "late size", "large size", "many sizes", "long"],
)
def test_broken_blocks_are_refused(block):
    with pytest.raises(hpack.HpackError):
        hpack.Decoder().decode(block)


def test_few_bytes_do_not_become_many():
    decoder = hpack.Decoder()
    decoder.decode(b"\x40\x01a\x7f\xa1\x1e" + 4000 * b"x")
    with pytest.raises(hpack.HeaderListTooLarge):
        decoder.decode(b"\xbe" * 20)


def test_many_fields_are_refused():
    """A field of one byte costs as much time as a long one."""
    decoder = hpack.Decoder()
    assert len(decoder.decode(hpack.MOST_FIELDS * b"\x93")) == hpack.MOST_FIELDS
    with pytest.raises(hpack.HeaderListTooLarge):
        decoder.decode((hpack.MOST_FIELDS + 1) * b"\x93")


def test_a_value_that_was_evicted_is_decoded_again():
    encoder, decoder = oracle.Encoder(), hpack.Decoder()
    for number in range(200):
        block = [*REQUEST, (":path", f"/{number}" + 60 * "x")]
        assert decoder.decode(encoder.encode(block)) == block
