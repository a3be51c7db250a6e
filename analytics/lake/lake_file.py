"""What the lake tells about a file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A file of the lake."""

    location: str
    size: int
    #: Time of the last change, UTC ms.
    modified_ms: int
    #: Differs when the content does, as far as the storage tells.
    version: str = ""
