"""Python's collector of cycles in processes through which events go.

Events are dictionaries by tens of thousands, and none of them is part of a cycle. By default the collector looks at
what is new every 700 objects, and now and then at all there is, with what the libraries have made: a sixth of the time
of a process that only hands events on.
"""

from __future__ import annotations

import gc

#: New objects before a look at them, and looks before one at what has outlived some.
_THRESHOLDS = (50_000, 20, 50)


def calm() -> None:
    """Let the collector of this process look seldom, and never again at what there is now. Once is enough."""
    if gc.get_threshold()[0] == _THRESHOLDS[0]:
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
