"""What a connection may take: sizes, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Limits:
    """Sizes in bytes, times in seconds. A server reads them each time, so that they may be changed while it serves."""

    #: Largest packet before sign-in, and of a sign-in at any time; with every field at its longest one has about 1 KiB.
    packet_before_sign_in: int = 16 * 1024
    #: Largest packet afterwards.
    packet: int = 4 * 1024 * 1024
    #: A packet of more than this asks the control for room before it is read.
    large_packet: int = 64 * 1024
    #: Time from connecting, or from asking for a change of user, to being signed in.
    sign_in_s: float = 10.0
    #: Pause after a refused sign-in: guessing passwords is to be slow.
    refused_pause_s: float = 0.2
    #: A connection that asks nothing for this long is closed (MySQL's wait_timeout).
    idle_s: float = 8 * 3600
    #: A packet that was begun has come within this time.
    packet_s: float = 60
    #: A client that does not take a piece of its answer within this time is given up (MySQL's net_write_timeout).
    write_s: float = 60
    #: Time for the last words of a connection to reach a client; then it is cut off.
    last_words_s: float = 2.0
    #: Time for all connections to end when the server stops.
    stop_s: float = 6.0
    #: Prepared statements that a connection may keep open; and cursors, which hold rows that somebody keeps ready.
    statements: int = 1000
    cursors: int = 16
    #: Characters of a statement that is prepared.
    statement_characters: int = 1024 * 1024
    #: What a connection keeps for later: prepared texts and long data.
    kept: int = 8 * 1024 * 1024
