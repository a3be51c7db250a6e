"""After everything else: no secret is in a log, in the database, in Redis or in the lake in clear."""

from __future__ import annotations

import re

from tests.support.product import Product

#: What may hold secrets: the folder of the secrets, and the file that hands the demo's out.
KEPT_APART = ("secrets", "demo.json")


def secrets_of(product: Product) -> dict[str, str]:
    """Every secret that this copy has drawn, by what it is."""
    demo = product.demo
    found = {
        "password of the demo's administrator": demo["password"],
        "AccessKey secret of the demo": demo["access_key_secret"],
        "password at the MySQL endpoint": demo["sql"]["password"],
    }
    if "platform" in demo:
        found["password of the platform's administrator"] = demo["platform"]["password"]
    for file in (product.home / "secrets").iterdir():
        # An id names a key; it is no secret.
        if file.is_file() and not file.name.endswith(("_id", ".crt", ".pem", ".pub")):
            found[f"secrets/{file.name}"] = file.read_text().strip()
    assert all(len(secret) >= 10 for secret in found.values()), found.keys()
    return found


def test_no_secret_is_in_a_log_or_in_a_file(product: Product) -> None:
    secrets = {name: secret.encode() for name, secret in secrets_of(product).items()}
    leaks, seen = [], 0
    for file, read in product.contents():
        content = read
        if file == product.output:
            # The banner hands the first password to whoever started the copy, once a start; nothing else may.
            content = re.sub(rb"(?m)^.*[Pp]assword.*$", b"", content)
        elif file.relative_to(product.home).parts[0] in KEPT_APART:
            continue
        seen += 1
        leaks += [f"{name} in {file.name}" for name, secret in secrets.items() if secret in content]
    assert leaks == []
    assert seen > 20, "the logs, the database, what Redis keeps and the lake"
