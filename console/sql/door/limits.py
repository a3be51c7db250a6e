"""Sizes and times of a connection."""

#: Largest packet before sign-in, and of a sign-in at any time; with every field at its longest one has about 1 KiB.
BEFORE_SIGN_IN = 16 * 1024
#: Largest packet afterwards; announced as max_allowed_packet.
AFTER_SIGN_IN = 4 * 1024 * 1024
#: What a connection keeps for later, prepared texts and long data, and what all those of an account keep, bytes.
MOST_KEPT, MOST_KEPT_OF_ACCOUNT = 8 * 1024 * 1024, 64 * 1024 * 1024
#: A connection that asks nothing for this long is closed (MySQL's wait_timeout), seconds.
IDLE_S = 8 * 3600
#: A client that does not take a piece of its answer within this time is given up (MySQL's net_write_timeout), seconds.
WRITE_S = 60
#: A packet that was begun has come within this time, seconds.
PACKET_S = 60
