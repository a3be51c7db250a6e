"""Attack: files that are small to upload and cost whoever reads them everything: time, memory, or the process itself.

An upload keeps the bytes as they come; what reads them, to propose a table, is a process of its own. The files here are
made by hand, since no library writes such.
"""

from __future__ import annotations

import bz2
import gzip
import os
import random
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from analytics import infer, look_process, wall
from analytics.errors import LakeError
from analytics.infer import infer_table
from console.accounts.models import User
from console.catalog.models import Bucket
from tests.support.broker import eventually
from tests.support.sql_cast import Cast

pytestmark = pytest.mark.process

MIB = 1024**2


# --- Parquet's footer, in Thrift's compact form ---------------------------------------------------------------------
def varint(number: int) -> bytes:
    """As Thrift and Protobuf write whole numbers."""
    told = b""
    while number > 127:
        told += bytes([number & 127 | 128])
        number >>= 7
    return told + bytes([number])


def zigzag(number: int) -> bytes:
    return varint(number << 1)


def field(step: int, kind: int, content: bytes) -> bytes:
    return bytes([step << 4 | kind]) + content


I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def listed(count: int, elements: bytes) -> bytes:
    return bytes([0xF0 | STRUCT]) + varint(count) + elements


def element(name: bytes, children: int = 0) -> bytes:
    """A SchemaElement: type INT32 and optional, or a group."""
    kind = b"" if children else field(1, I32, zigzag(1))
    told = kind + field(3 if children else 2, I32, zigzag(1)) + field(1, BINARY, varint(len(name)) + name)
    return told + (field(1, I32, zigzag(children)) if children else b"") + b"\0"


def parquet(elements: bytes, count: int, rows: int = 0, groups: bytes | None = None) -> bytes:
    footer = field(1, I32, zigzag(1)) + field(1, LIST, listed(count, elements)) + field(1, I64, zigzag(rows))
    footer += field(1, LIST, listed(0, b"") if groups is None else groups) + b"\0"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def nested(depth: int) -> bytes:
    return parquet(element(b"root", 1) + element(b"a", 1) * depth + element(b"leaf"), depth + 2)


def wide(columns: int) -> bytes:
    return parquet(element(b"root", columns) + b"".join(element(b"c%d" % n) for n in range(columns)), columns + 1)


# --- ORC's tail, in Protobuf ----------------------------------------------------------------------------------------
def orc(footer: bytes, claimed: int | None = None, block: int = 256 * 1024) -> bytes:
    postscript = b"\x08" + varint(len(footer) if claimed is None else claimed) + b"\x10\x00\x18" + varint(block)
    postscript += b"\x22\x02\x00\x0c\x28\x00\x30\x06" + varint(8000 << 3 | 2) + b"\x03ORC"
    return b"ORC" + footer + postscript + bytes([len(postscript)])


def deep_types(depth: int) -> bytes:
    """Structs within each other: each type names the next as its child."""
    types = []
    for number in range(depth):
        inner = b"\x08\x0c\x12" + varint(len(varint(number + 1))) + varint(number + 1) + b"\x1a\x01a"
        types.append(b"\x22" + varint(len(inner)) + inner)
    leaf = b"\x08\x03"
    return b"".join(types) + b"\x22" + varint(len(leaf)) + leaf


def members(packed: bytes, times: int) -> bytes:
    """Packed files one behind the other are one file."""
    return packed * times


NOISE = random.Random(7).randbytes(64 * 1024)
BOMBS: dict[str, Callable[[], bytes]] = {
    "nested.parquet": lambda: nested(100_000),
    "deeper.parquet": lambda: nested(500_000),
    "wide.parquet": lambda: wide(200_000),
    "children.parquet": lambda: parquet(element(b"root", 2**31 - 1) + element(b"a"), 2),
    "elements.parquet": lambda: parquet(element(b"root", 1), 2**31 - 1),
    "groups.parquet": lambda: parquet(element(b"root", 1) + element(b"a"), 2, 2**62, listed(2**31 - 1, b"")),
    "name.parquet": lambda: parquet(element(b"root", 1) + b"\x15\x02\x25\x02\x18" + varint(2**31 - 1), 2),
    "footer.parquet": lambda: b"PAR1" + NOISE + struct.pack("<I", 2**32 - 1) + b"PAR1",
    "noise.parquet": lambda: b"PAR1" + NOISE * 320 + struct.pack("<I", 20 * MIB) + b"PAR1",
    "claims.orc": lambda: orc(NOISE, claimed=2**40),
    "block.orc": lambda: orc(NOISE, block=2**50),
    "deep.orc": lambda: orc(deep_types(50_000)),
    "zeros.csv.gz": lambda: members(gzip.compress(bytes(64 * MIB), 6), 160),
    "zeros.json.bz2": lambda: members(bz2.compress(bytes(8 * MIB)), 1280),
    "window.csv.zst": lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x02\xff\xff" + b"a" * 100,
    "noise.csv.gz": lambda: NOISE,
    "commas.csv": lambda: b"," * (MIB - 1) + b"\n",
    "quote.csv": lambda: b'a,b\n"' + b"x\n" * (4 * MIB),
    "line.csv": lambda: b"x" * (64 * MIB),
    "deep.json": lambda: b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "objects.json": lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
    "open.json": lambda: b"[" * (MIB - 2) + b"\n",
    "keys.json": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(70_000)) + b"}\n",
    "line.json": lambda: b'{"a":"' + b"x" * (64 * MIB),
    "archive.zip": lambda: b"PK\x03\x04" + NOISE,
}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GANTRY_LAKE", str(tmp_path))
    return tmp_path


def put(lake: Path, name: str, content: bytes) -> str:
    folder = lake / "demo-lake" / name.replace(".", "-")
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    return f"oss://demo-lake/{folder.name}/"


def most_memory() -> int:
    """The most that this process has had since `forget_most_memory`, bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def forget_most_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_is_a_bomb_costs_a_sentence(lake: Path, name: str) -> None:
    location = put(lake, name, BOMBS[name]())
    forget_most_memory()
    before, began = most_memory(), time.process_time()
    with pytest.raises(LakeError) as refused:
        infer_table(location, None, {})
    assert "\n" not in refused.value.user_message
    assert len(refused.value.user_message) < 500
    assert "Traceback" not in refused.value.user_message
    assert most_memory() - before < 200 * MIB, "the file is not read here"
    assert time.process_time() - began < 10, "nor looked at"


def test_a_gigabyte_in_one_line_is_not_read(lake: Path) -> None:
    location = put(lake, "sparse.json", b'{"a":"')
    os.truncate(lake / "demo-lake" / "sparse-json" / "sparse.json", 1024 * MIB)
    with pytest.raises(LakeError, match=r"The first line of sparse\.json is longer than 1048576 bytes"):
        infer_table(location, None, {})
    location = put(lake, "sparse.parquet", b"PAR1")
    with (lake / "demo-lake" / "sparse-parquet" / "sparse.parquet").open("r+b") as file:
        file.truncate(1024 * MIB)
        file.seek(0, os.SEEK_END)
        file.write(struct.pack("<I", 1000 * MIB) + b"PAR1")
    with pytest.raises(LakeError, match="cannot be determined from the part of it that is read"):
        infer_table(location, None, {})


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("a.csv.gz", gzip.compress(b"id,name\n" + b"1,a\n" * MIB), ["id bigint", "name string"]),
        ("bomb.csv.gz", members(gzip.compress(b"a,b\n" + b"1,x\n" * MIB), 600), ["a bigint", "b string"]),
        ("a.csv", b"id,name\n" + b"1,a\n" * MIB, ["id bigint", "name string"]),
        ("a.jsonl", b'{"id":1,"tags":["x"]}\n' * 100_000, ["id bigint", "tags array<string>"]),
        ("a.parquet", parquet(element(b"root", 3) + element(b"a") + element(b"b") + element(b"c"), 4),
         ["a int", "b int", "c int"]),
        ("wide.parquet", wide(3000), None),
        ("nested.parquet", nested(50), None),
    ],
)  # fmt: skip
def test_what_people_have_is_read(lake: Path, name: str, content: bytes, columns: list[str] | None) -> None:
    """Or the files above would be refused for a reason of their own."""
    found = infer_table(put(lake, name, content), None, {})
    assert columns is None or [f"{c.name} {c.type}" for c in found.columns] == columns


# --- The process that looks -----------------------------------------------------------------------------------------
@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that waits for a file."""
    started = infer._started()
    yield started
    started.kill()
    started.wait()
    for pipe in (started.stdin, started.stdout):
        assert pipe is not None
        pipe.close()


def test_the_process_that_looks_has_no_setting_no_secret_no_file_and_little_memory(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_it = Path(f"/proc/{process.pid}")
    deadline = time.monotonic() + 60
    while str(look_process.MOST_MEMORY) not in of_it.joinpath("limits").read_text():
        assert time.monotonic() < deadline
        assert process.poll() is None
    assert not [line for line in of_it.joinpath("environ").read_text().split("\0") if "GANTRY" in line]
    assert of_it.joinpath("cwd").readlink() == Path("/")
    opened = {os.path.realpath(file) for file in of_it.joinpath("fd").iterdir()}
    assert {name for name in opened if "pipe:" not in name} == {"/dev/null"}
    limits = of_it.joinpath("limits").read_text()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max file size")] == [["0", "0"]]
    assert [line.split()[3] for line in limits.splitlines() if line.startswith("Max cpu time")] == ["10"]


def test_without_the_wall_that_is_required_nothing_is_looked_at(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = put(lake, "a.csv", b"id\n1\n")
    monkeypatch.setenv("GANTRY_ENGINE_WALL", "require")
    monkeypatch.setattr(wall, "abi", lambda: 0)
    with pytest.raises(LakeError, match=r"Files cannot be read: .* GANTRY_ENGINE_WALL requires"):
        infer_table(location, None, {})
    assert infer._places.are_free


@pytest.mark.skipif(not wall.is_available(), reason="no Landlock")
def test_where_there_is_a_wall_the_process_is_behind_it(process: subprocess.Popen[bytes]) -> None:
    """What this kernel tells of a process: it has a filter of system calls, and no right beyond its name."""
    status = Path(f"/proc/{process.pid}/status")
    eventually(lambda: "Seccomp:\t2" in status.read_text(), 60)
    assert "NoNewPrivs:\t1" in status.read_text()


def test_one_account_leaves_a_process_for_the_others(
    lake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Processes that take a file and never say anything stand for files that are still to be found."""
    program = tmp_path / "endless.py"
    program.write_text("import sys\nsys.stdin.buffer.read()\n")
    good = put(lake, "a.csv", b"id\n1\n")
    real, began = infer._PROGRAM, threading.Semaphore(0)
    started = infer._started

    def start() -> subprocess.Popen[bytes]:
        hostile = threading.current_thread().name.startswith("mallory")
        monkeypatch.setattr(infer, "_PROGRAM", program if hostile else real)
        found = started()
        if hostile:
            began.release()
        return found

    monkeypatch.setattr(infer, "_started", start)
    monkeypatch.setattr(infer, "_LONGEST_S", 20.0)
    refused: list[str] = []

    def attack() -> None:
        try:
            infer_table(good, None, {}, "mallory")
        except LakeError as error:
            refused.append(error.user_message)

    attackers = [threading.Thread(target=attack, name=f"mallory-{n}") for n in range(6)]
    for thread in attackers:
        thread.start()
    for _ in range(infer.MOST - 1):
        assert began.acquire(timeout=30)
    assert [c.name for c in infer_table(good, None, {}, "bob").columns] == ["id"]
    assert not refused, "they still hold what they could get"
    for thread in attackers:
        thread.join(60)
    assert len(refused) == 6
    assert infer._places.are_free


# --- Through the pages ----------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_somebody_who_uploads_one_and_asks_for_a_table_gets_a_sentence(sql_cast: Cast, lake: Path) -> None:
    Bucket.objects.create(tenant=sql_cast.alice.tenant, name="demo-lake")
    User.objects.filter(pk=sql_cast.alice.person.pk).update(must_change_password=False)
    client = Client()
    client.force_login(sql_cast.alice.person)
    for name in ("deep.json", "nested.parquet"):
        folder = name.replace(".", "-")
        form = {"folder": folder, "content": SimpleUploadedFile(name, BOMBS[name]())}
        assert client.post(reverse("sql.bucket_upload", args=["demo-lake"]), form).status_code == 302
        page = client.get(reverse("sql.bucket_table", args=["demo-lake"]), {"folder": folder}).content.decode()
        assert f"The file {name} cannot be read as" in page
        assert "Write the columns" in page
