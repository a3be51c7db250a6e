"""Bodies as people see them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from console.messaging import records


def test_it_shows_json_indented() -> None:
    shown = records.view(b'{"a":[1,2],"b":{}}')
    assert shown.mode == "json"
    assert shown.content == '{\n  "a": [\n    1,\n    2\n  ],\n  "b": {}\n}'


def test_it_keeps_every_digit_and_every_repeated_key_of_json() -> None:
    shown = records.view(b'{"n":12345678901234567890.123456789012345678,"n":1e400}')
    assert '"n": 12345678901234567890.123456789012345678' in shown.content
    assert '"n": 1e400' in shown.content


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)
    )
)
def test_indented_json_says_the_same(value: object) -> None:
    body = json.dumps([value], ensure_ascii=True).encode()
    assert json.loads(records.view(body, "json").content) == [value]


def test_it_shows_binary_as_hex_and_offers_nothing_else() -> None:
    shown = records.view(bytes(range(256)))
    assert (shown.mode, shown.modes) == ("hex", ("hex",))
    assert shown.content.startswith("00000000  00 01 02 03 04 05 06 07  08 09")


def test_a_wanted_mode_that_does_not_fit_falls_back() -> None:
    assert records.view(b"\xff\xfe", "text").mode == "hex"
    assert records.view(b"plain", "json").mode == "text"
    assert records.view(b"plain", "hex").mode == "hex"
    assert records.view(b"plain", "<script>").mode == "text"


def test_it_makes_control_and_deceptive_characters_visible() -> None:
    shown = records.view("a\x00b\u202egnp.exe\n".encode())
    assert shown.mode == "text"
    assert shown.content == "a␀b⟨U+202E⟩gnp.exe\n"


def test_it_cuts_large_bodies_and_says_so() -> None:
    shown = records.view(b"x" * 4_000_000)
    assert shown.cut
    assert (shown.size, shown.shown, len(shown.content)) == (4_000_000, 65536, 65536)


def test_it_does_not_cut_a_character_in_two() -> None:
    assert records.view(("€" * 40_000).encode()).content == "€" * (65536 // 3)


def test_json_that_nests_too_deeply_is_text() -> None:
    assert records.view(b"[" * 200_000).mode == "text"


def test_a_preview_is_one_short_line() -> None:
    assert records.preview(b'{"a":\n  1}') == '{"a": 1}'
    assert len(records.preview(b"x" * 1000)) == 120
    assert records.preview(("€" * 500).encode()).startswith("€€€")
    assert records.preview(b"\x89PNG\xff") == "89 50 4e 47 ff"


@given(st.binary(max_size=300), st.sampled_from(["", "text", "json", "hex"]))
def test_any_bytes_can_be_shown(body: bytes, mode: str) -> None:
    shown = records.view(body, mode)
    assert shown.mode in shown.modes
    assert "\x00" not in shown.content
