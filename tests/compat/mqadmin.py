"""The vendor's command line mqadmin, run by its own main class, with the keys in tools.yml as its users have them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.compat.programs import Keys, Toolbox

#: Lines of the logging library that mqadmin prints before its own.
_LOGGING = re.compile(r"^\d\d:\d\d:\d\d,\d+ \|-")


@dataclass(frozen=True)
class Mqadmin:
    """mqadmin with one AccessKey pair; `home` is its ROCKETMQ_HOME."""

    tools: Toolbox
    home: Path

    @classmethod
    def with_keys(cls, tools: Toolbox, home: Path, keys: Keys) -> Mqadmin:
        """Write tools.yml below `home` and return the command that reads it."""
        configuration = home / "conf"
        configuration.mkdir(parents=True)
        text = f"accessKey: {keys.access_key_id}\nsecretKey: {keys.secret}\n"
        (configuration / "tools.yml").write_text(text)
        return cls(tools, home)

    def __call__(self, *arguments: str) -> str:
        """Run one command and return what it printed, standard error included."""
        command = [*self.tools.java("apache"), "org.apache.rocketmq.tools.command.MQAdminStartup", *arguments]
        done = subprocess.run(
            [*command, "-n", self.tools.namesrv],
            env=os.environ | {"ROCKETMQ_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        lines = (done.stdout + done.stderr).splitlines()
        return "\n".join(line for line in lines if not _LOGGING.match(line))
