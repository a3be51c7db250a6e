"""The look at the web process's own connections costs it nothing that stays."""

from __future__ import annotations

import os
import socket

from pytest_django import Settings

from console.web.connections import Connections


def test_looks_leave_no_descriptor_behind_whatever_else_is_open(settings: Settings) -> None:
    settings.WEB_PEER_CONNECTIONS = 1  # so that each look goes through all of them
    pipes = [os.pipe() for _ in range(10)]
    connections = Connections()
    with socket.socket() as ours:
        connections.look()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            connections.look()
            connections.cut(("127.0.0.1", 1))
        assert len(os.listdir("/proc/self/fd")) <= before + 1
        assert ours.fileno() >= 0
    for pipe in pipes:
        for end in pipe:
            os.close(end)
