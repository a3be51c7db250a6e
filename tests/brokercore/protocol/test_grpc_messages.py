"""The messages of gRPC: as the protocol has them, and their modules as messaging.proto says."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from grpc_tools import protoc

from brokercore.protocol.grpc import messaging_pb2
from tests.support.broker import ROOT


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The vendor's descriptors by name; its client writes a log into the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        found: dict[str, Any] = {}
        for name in ("definition_pb2", "service_pb2"):
            module = importlib.import_module(f"rocketmq.grpc_protocol.{name}")
            found |= dict(module.DESCRIPTOR.message_types_by_name) | dict(module.DESCRIPTOR.enum_types_by_name)
        return found


def shape(field: Any) -> tuple[Any, ...]:
    kind = field.message_type or field.enum_type
    named = kind.name if kind else ""
    return field.number, field.type, field.is_repeated, field.has_presence, named


def test_every_field_is_the_vendors(vendor: dict[str, Any]) -> None:
    ours = messaging_pb2.DESCRIPTOR.message_types_by_name
    assert len(ours) > 50
    for name, message in ours.items():
        theirs = vendor[name].fields_by_name
        assert {field.name: shape(field) for field in message.fields} == {
            field.name: shape(theirs[field.name]) for field in message.fields
        }, name


def test_every_number_is_the_vendors(vendor: dict[str, Any]) -> None:
    for name, enum in messaging_pb2.DESCRIPTOR.enum_types_by_name.items():
        theirs = {value.name: value.number for value in vendor[name].values}
        assert {value.name: theirs.get(value.name) for value in enum.values} == {
            value.name: value.number for value in enum.values
        }, name


def test_the_modules_are_what_make_protocol_makes(tmp_path: Path) -> None:
    source = "brokercore/protocol/grpc/messaging.proto"
    include = Path(sys.modules["grpc_tools"].__path__[0]) / "_proto"
    arguments = ["protoc", f"-I{ROOT}", f"-I{include}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", source]
    assert protoc.main(arguments) == 0
    for suffix in (".py", ".pyi"):
        name = f"brokercore/protocol/grpc/messaging_pb2{suffix}"
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()
