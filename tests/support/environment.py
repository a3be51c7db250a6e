"""Loaded by pytest before Django's settings: a home of its own and drawn secrets for this test run."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from cryptography.fernet import Fernet

HOME = Path(tempfile.mkdtemp(prefix="gantry-tests-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
for name in [n for n in os.environ if n.startswith("GANTRY_") and not n.startswith("GANTRY_TEST_")]:
    del os.environ[name]
#: Where brokers of this run listen: the engine may connect to these ports, and it is told before they are chosen.
FIRST_PORT = 20_000 + 200 * secrets.randbelow(50)
os.environ |= {
    "GANTRY_ENGINE_PORTS": f"{FIRST_PORT}-{FIRST_PORT + 199}",
    "GANTRY_HOME": str(HOME),
    "GANTRY_SECRET_KEY": secrets.token_urlsafe(48),
    "GANTRY_MASTER_KEY": Fernet.generate_key().decode(),
    "GANTRY_BROKER_ACCESS_KEY_ID": "LTAI" + secrets.token_hex(8),
    "GANTRY_BROKER_ACCESS_KEY_SECRET": secrets.token_urlsafe(24),
    # The command line speaks the language of whoever runs it, and tests expect English.
    "LANGUAGE": "en_US",
}
