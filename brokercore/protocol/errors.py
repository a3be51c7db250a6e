"""What can be wrong with bytes from a peer.

ProtocolError
├── FrameError              the connection cannot be trusted any more: close it
├── MessageFormatError      a stored message, a property string, a batch or a message id is malformed
├── DecompressionError      a body is not what its flag says, is too large, or needs a codec that is not installed
├── LenientJsonError        a JSON body that not even fastjson would read
└── SubscriptionError       a filter expression that no consumer can mean
"""

from __future__ import annotations


class ProtocolError(ValueError):
    """Base of all that is wrong with bytes from a peer."""


class FrameError(ProtocolError):
    """A frame or its header breaks the framing rules; the only answer is to close the connection."""


class MessageFormatError(ProtocolError):
    """A stored message, a property string, a batch or a message id is malformed."""


class DecompressionError(ProtocolError):
    """A compressed body is broken, larger than the limit, or its codec is not installed."""


class LenientJsonError(ProtocolError):
    """A JSON body cannot be read, not even in fastjson's dialect."""


class SubscriptionError(ProtocolError):
    """A filter expression cannot be parsed."""
