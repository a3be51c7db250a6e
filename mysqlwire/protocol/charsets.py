"""Character sets and collations (page Character Set, and the reference manual's Character Sets and Collations).

The protocol names a character set by the number of one of its collations. Python has no codec for some of them, which
therefore nobody can speak here, and MySQL lets no client speak those whose ASCII is wider than a byte.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

#: The languages of the Unicode collations; each Unicode character set has a run of numbers for them, in this order.
_LANGUAGES = (
    "unicode", "icelandic", "latvian", "romanian", "slovenian", "polish", "estonian", "spanish", "swedish", "turkish",
    "czech", "danish", "lithuanian", "slovak", "spanish2", "roman", "persian", "esperanto", "hungarian", "sinhala",
    "german2", "croatian", "unicode_520", "vietnamese",
)  # fmt: skip

#: Those of Unicode 9 that MySQL 8 brought, all of utf8mb4: two runs in this order, with gaps where it has none.
_LANGUAGES_9 = (
    "*", "de_pb", "is", "lv", "ro", "sl", "pl", "et", "es", "sv", "tr", "cs", "da", "lt", "sk", "es_trad", "la", "-",
    "eo", "hu", "hr", "-", "vi",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A character set; `number` stands for it in columns and the greeting, `codec` is Python's, empty for none."""

    name: str
    number: int
    default_collation: str
    codec: str

    @property
    def wide(self) -> bool:
        """True when a letter of ASCII has more than one byte: a client cannot speak it."""
        return self.name.startswith(("ucs", "utf16", "utf32"))

    @property
    def speakable(self) -> bool:
        """True when a client may send and be sent texts in it."""
        return bool(self.codec) and not self.wide

    def decode(self, data: bytes | bytearray) -> str:
        """The text of bytes that a client sent. Raises UnicodeDecodeError, which is a ValueError."""
        return data.decode(self.codec)

    def encode(self, text: str) -> bytes:
        """The bytes of a text; what the character set lacks becomes `?`, as in MySQL."""
        return text.encode(self.codec, "replace")


# Number, name, default collation, codec of Python.
_SETS = (
    (1, "big5", "big5_chinese_ci", "big5"),
    (3, "dec8", "dec8_swedish_ci", ""),
    (4, "cp850", "cp850_general_ci", "cp850"),
    (6, "hp8", "hp8_english_ci", "hp-roman8"),
    (7, "koi8r", "koi8r_general_ci", "koi8-r"),
    (8, "latin1", "latin1_swedish_ci", "iso8859-1"),
    (9, "latin2", "latin2_general_ci", "iso8859-2"),
    (10, "swe7", "swe7_swedish_ci", ""),
    (11, "ascii", "ascii_general_ci", "ascii"),
    (12, "ujis", "ujis_japanese_ci", "euc_jp"),
    (13, "sjis", "sjis_japanese_ci", "shift_jis"),
    (16, "hebrew", "hebrew_general_ci", "iso8859-8"),
    (18, "tis620", "tis620_thai_ci", "tis-620"),
    (19, "euckr", "euckr_korean_ci", "euc_kr"),
    (22, "koi8u", "koi8u_general_ci", "koi8-u"),
    (24, "gb2312", "gb2312_chinese_ci", "gb2312"),
    (25, "greek", "greek_general_ci", "iso8859-7"),
    (26, "cp1250", "cp1250_general_ci", "cp1250"),
    (28, "gbk", "gbk_chinese_ci", "gbk"),
    (30, "latin5", "latin5_turkish_ci", "iso8859-9"),
    (32, "armscii8", "armscii8_general_ci", ""),
    (33, "utf8", "utf8_general_ci", "utf-8"),
    (35, "ucs2", "ucs2_general_ci", "utf-16-be"),
    (36, "cp866", "cp866_general_ci", "cp866"),
    (37, "keybcs2", "keybcs2_general_ci", ""),
    (38, "macce", "macce_general_ci", "mac-latin2"),
    (39, "macroman", "macroman_general_ci", "mac-roman"),
    (40, "cp852", "cp852_general_ci", "cp852"),
    (41, "latin7", "latin7_general_ci", "iso8859-13"),
    (51, "cp1251", "cp1251_general_ci", "cp1251"),
    (54, "utf16", "utf16_general_ci", "utf-16-be"),
    (56, "utf16le", "utf16le_general_ci", "utf-16-le"),
    (57, "cp1256", "cp1256_general_ci", "cp1256"),
    (59, "cp1257", "cp1257_general_ci", "cp1257"),
    (60, "utf32", "utf32_general_ci", "utf-32-be"),
    (63, "binary", "binary", ""),
    (92, "geostd8", "geostd8_general_ci", ""),
    (95, "cp932", "cp932_japanese_ci", "cp932"),
    (97, "eucjpms", "eucjpms_japanese_ci", ""),
    (248, "gb18030", "gb18030_chinese_ci", "gb18030"),
    (255, "utf8mb4", "utf8mb4_0900_ai_ci", "utf-8"),
)
CHARACTER_SETS = {name: CharacterSet(name, number, default, codec) for number, name, default, codec in _SETS}
UTF8MB4, BINARY = CHARACTER_SETS["utf8mb4"], CHARACTER_SETS["binary"]
#: Other names of the same.
_ALIASES = {"utf8mb3": "utf8"}

_NUMBERS = {
    **{default: number for number, name, default, _ in _SETS if name != "utf8mb4"},
    **{"latin2_czech_cs": 2, "latin1_german1_ci": 5, "cp1251_bulgarian_ci": 14, "latin1_danish_ci": 15},
    **{"latin7_estonian_cs": 20, "latin2_hungarian_ci": 21, "cp1251_ukrainian_ci": 23, "latin2_croatian_ci": 27},
    **{"cp1257_lithuanian_ci": 29, "latin1_german2_ci": 31, "cp1250_czech_cs": 34, "latin7_general_cs": 42},
    **{"macce_bin": 43, "cp1250_croatian_ci": 44, "utf8mb4_general_ci": 45, "utf8mb4_bin": 46, "latin1_bin": 47},
    **{"latin1_general_ci": 48, "latin1_general_cs": 49, "cp1251_bin": 50, "cp1251_general_cs": 52},
    **{"macroman_bin": 53, "utf16_bin": 55, "cp1257_bin": 58, "utf32_bin": 61, "utf16le_bin": 62, "armscii8_bin": 64},
    **{"ascii_bin": 65, "cp1250_bin": 66, "cp1256_bin": 67, "cp866_bin": 68, "dec8_bin": 69, "greek_bin": 70},
    **{"hebrew_bin": 71, "hp8_bin": 72, "keybcs2_bin": 73, "koi8r_bin": 74, "koi8u_bin": 75, "latin2_bin": 77},
    **{"latin5_bin": 78, "latin7_bin": 79, "cp850_bin": 80, "cp852_bin": 81, "swe7_bin": 82, "utf8_bin": 83},
    **{"big5_bin": 84, "euckr_bin": 85, "gb2312_bin": 86, "gbk_bin": 87, "sjis_bin": 88, "tis620_bin": 89},
    **{"ucs2_bin": 90, "ujis_bin": 91, "geostd8_bin": 93, "latin1_spanish_ci": 94, "cp932_bin": 96},
    **{"eucjpms_bin": 98, "cp1250_polish_ci": 99, "ucs2_general_mysql500_ci": 159, "utf8_general_mysql500_ci": 223},
    **{"gb18030_bin": 249, "gb18030_unicode_520_ci": 250},
}
for _set, _first in (("utf16", 101), ("ucs2", 128), ("utf32", 160), ("utf8", 192), ("utf8mb4", 224)):
    _NUMBERS |= {f"{_set}_{language}_ci": _first + offset for offset, language in enumerate(_LANGUAGES)}
for _sensitivity, _first in (("ai_ci", 255), ("as_cs", 278)):
    for _offset, _language in enumerate(_LANGUAGES_9):
        if _language != "-":
            _NUMBERS[f"utf8mb4_{_language}_0900_{_sensitivity}".replace("*_", "")] = _first + _offset
_NUMBERS |= {"utf8mb4_ja_0900_as_cs": 303, "utf8mb4_ja_0900_as_cs_ks": 304, "utf8mb4_0900_as_ci": 305}
_NUMBERS |= {"utf8mb4_ru_0900_ai_ci": 306, "utf8mb4_ru_0900_as_cs": 307, "utf8mb4_zh_0900_as_cs": 308}
_NUMBERS |= {"utf8mb4_0900_bin": 309}

#: The numbers of collations by their names; those of utf8 have the names of MySQL 8.0.30 and later besides.
COLLATIONS = _NUMBERS | {
    name.replace("utf8_", "utf8mb3_"): number for name, number in _NUMBERS.items() if name.startswith("utf8_")
}
_OF_NUMBER = {number: CHARACTER_SETS[name.partition("_")[0]] for name, number in _NUMBERS.items()}


def character_set(name: str) -> CharacterSet | None:
    """The character set of a name in any case; None for one that MySQL does not have."""
    name = name.lower()
    return CHARACTER_SETS.get(_ALIASES.get(name, name))


def of_collation(number: int) -> CharacterSet | None:
    """The character set of a collation; None for a number that is unknown."""
    return _OF_NUMBER.get(number)


def spoken(number: int) -> CharacterSet:
    """What a client speaks that signs in with a collation: utf8mb4 where that one is unknown or cannot be spoken."""
    charset = of_collation(number)
    return charset if charset is not None and charset.speakable else UTF8MB4


for _charset in CHARACTER_SETS.values():  # a codec that this Python does not have is to be found at once
    if _charset.codec:
        codecs.lookup(_charset.codec)
