"""How a copy starts where others can reach it: with own secrets, over TLS, and without what was never offered."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from tests.support.cast import Cast

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]
MISSING = (
    "GANTRY_SECRET_KEY is not set and there is no {home}/secrets/secret_key: every installation has secrets of its own."
    " `make up` generates them, or `python3 -m launcher secrets`."
)
#: What django-allauth could also do, and we do not.
NOT_OFFERED = (
    "account/signup/", "account/email/", "account/confirm-email/", "account/password/set/", "account/password/reset/",
    "account/password/reset/done/", "account/login/code/", "account/3rdparty/", "account/social/signup/",
    "account/social/connections/", "account/oidc/acme/login/", "account/mfa/webauthn/login/", "account/mfa/trust/",
    "account/sessions/", "account/mfa/codes/download/", "accounts/signup/", "accounts/login/", "admin/",
)  # fmt: skip


def run(home: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A process with nothing of this one's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GANTRY_")}
    clean |= {"GANTRY_HOME": str(home), "DJANGO_SETTINGS_MODULE": "console.settings"} | environ
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=clean, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of a copy with drawn secrets."""
    run(tmp_path, "-m", "launcher", "secrets", str(tmp_path / "secrets"))
    return tmp_path


def test_djangos_checks_for_deployment_find_nothing(home: Path) -> None:
    done = run(home, "manage.py", "check", "--deploy", "--fail-level", "WARNING", GANTRY_HTTPS="true")
    assert (done.returncode, done.stdout) == (0, "System check identified no issues (0 silenced).\n"), done.stderr


@pytest.mark.parametrize(
    "command",
    [("manage.py", "check"), ("manage.py", "migrate"), ("-c", "import console.asgi")],
    ids=["check", "migrate", "web"],
)
def test_nothing_starts_without_secrets_of_its_own(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run(tmp_path, *command)
    assert done.returncode != 0
    assert MISSING.format(home=tmp_path) in done.stderr
    assert not (tmp_path / "secrets").exists()


def test_a_worker_does_not_start_without_secrets_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "celery", "-A", "console.celery", "worker", "-P", "solo")
    assert done.returncode != 0
    assert MISSING.format(home=tmp_path) in done.stderr


def test_a_master_key_that_is_none_is_said_at_the_start(home: Path) -> None:
    done = run(home, "manage.py", "check", GANTRY_MASTER_KEY="rocketmq")
    assert done.returncode != 0
    assert "GANTRY_MASTER_KEY is not a Fernet key" in done.stderr


def test_tls_without_a_proxy_to_believe_is_said(home: Path) -> None:
    done = run(home, "manage.py", "check", "--deploy", GANTRY_HTTPS="true", GANTRY_TRUSTED_PROXIES=",")
    assert "console.W001" in done.stderr


def test_each_installation_draws_other_secrets(tmp_path: Path) -> None:
    drawn = []
    for name in ("one", "two"):
        run(tmp_path, "-m", "launcher", "secrets", str(tmp_path / name))
        drawn.append({file.name: file.read_text() for file in (tmp_path / name).iterdir()})
    assert len(drawn[0]) == 5
    assert all(drawn[0][name] != drawn[1][name] for name in drawn[0])
    assert all(len(secret) >= 16 for secret in drawn[0].values())


def test_no_password_or_secret_stands_in_the_code() -> None:
    """No literal beside such a name; what looks like one is the name of a field, a header or a variable."""
    name = r"(?:password|secret|secret_key|master_key|token)"
    literal = re.compile(rf"""(?i)\b{name}\b["']?\s*[:=]\s*["']([^"'{{}}$<\s]{{4,}})["']""")
    field = re.compile(r"(?i)[\w-]*(?:secret|token|password)[\w-]*")
    found = []
    for package in ("console", "brokercore", "analytics", "launcher", "gantry_cli"):
        for file in (ROOT / package).rglob("*.py"):
            values = [value for value in literal.findall(file.read_text()) if not field.fullmatch(value)]
            found += [f"{file.relative_to(ROOT)}: {value}" for value in values]
    assert found == []


def test_secrets_have_no_default_in_the_compose_file() -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert re.findall(r"(?im)^\s*[\w-]*(?:password|secret)[\w-]*:\s+(?!\$|/run/secrets|\./)[\w-]{4,}\s*$", text) == []


@pytest.mark.parametrize("path", NOT_OFFERED)
def test_what_is_not_offered_does_not_exist(cast: Cast, path: str) -> None:
    for role in ("anonymous", "alice"):
        for method in ("get", "post"):
            assert getattr(cast.client(role), method)(f"/{path}").status_code == 404


def test_every_view_of_the_library_is_one_that_we_chose() -> None:
    """A view of django-allauth that is reachable by accident would be reachable by attackers too."""
    chosen = {name for name, module in _views(get_resolver().url_patterns) if module.startswith("allauth.")}
    assert chosen == {
        "account_login", "account_logout", "account_change_password", "account_reauthenticate", "account_inactive",
        "mfa_authenticate", "mfa_reauthenticate", "mfa_activate_totp", "mfa_deactivate_totp",
        "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_add_webauthn", "mfa_reauthenticate_webauthn",
        "mfa_edit_webauthn",
    }  # fmt: skip


def _views(patterns: list[URLPattern | URLResolver]) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _views(pattern.url_patterns)
        else:
            yield str(pattern.name), str(pattern.callback.__module__)
