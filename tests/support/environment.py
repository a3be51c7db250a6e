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
os.environ |= {
    "GANTRY_HOME": str(HOME),
    "GANTRY_SECRET_KEY": secrets.token_urlsafe(48),
    "GANTRY_MASTER_KEY": Fernet.generate_key().decode(),
    "GANTRY_BROKER_ACCESS_KEY_ID": "LTAI" + secrets.token_hex(8),
    "GANTRY_BROKER_ACCESS_KEY_SECRET": secrets.token_urlsafe(24),
}
