"""What the SQL figures are taken on: ten accounts more, and two large tables, beside the demo's flights."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.product import Product

ACCOUNTS = 10
ROWS = 10_000_000
RESULT_ROWS = 5_000_000
#: Enough row groups for splits of 16 MB.
_ROW_GROUP = 500_000
_BUCKET = "gantry-demo"

#: Run in the copy's own environment: accounts with a bucket and a schema `bench` each.
_CODE = """
import json
from console.accounts import services as accounts
from console.accounts.actor import Actor
from console.accounts.models import Organization
from console.catalog.models import Bucket, ExternalTable, Schema

columns = json.loads({columns!r})
known = ExternalTable.objects.get(schema__name="demo", name="flights")
organization, _ = Organization.objects.get_or_create(parent=None, name="bench")
keys = []
for number in range({accounts}):
    user = accounts.create_tenant(name=f"bench{{number}}", organization=organization, password=accounts.draw_password())
    Bucket.objects.create(tenant=user.tenant, name=f"bench-{{number}}")
    location = f"oss://bench-{{number}}/bench/"
    schema = Schema.objects.create(tenant=user.tenant, name="bench", location=location)
    ExternalTable.objects.create(
        schema=schema, name="flights", location=f"{{location}}flights/", columns=known.columns,
        format=known.format, partitions=known.partitions, options=known.options,
    )
    ExternalTable.objects.create(schema=schema, name="big", location=f"{{location}}big/", columns=columns)
    key = accounts.create_access_key(actor=Actor(user), user=user)
    keys.append([key.access_key_id, key.access_key_secret])
print("KEYS " + json.dumps(keys))
"""


def big_table(product: Product) -> Path:
    """Write 10,000,000 rows to the lake, once; returns the folder."""
    folder = product.home / "lake" / _BUCKET / "bench" / "big"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numpy.random.default_rng(1)
    names = pa.array([f"name {number}" for number in range(5000)])
    with pq.ParquetWriter(folder / "part-0.parquet", _schema()) as writer:
        for start in range(0, ROWS, _ROW_GROUP):
            ids = numpy.arange(start, start + _ROW_GROUP)
            columns = [ids, ids % 1000, numbers.random(_ROW_GROUP).round(6), names.take(pa.array(ids % 5000))]
            writer.write_table(pa.table(columns, schema=_schema()), row_group_size=_ROW_GROUP)
    return folder


def accounts(product: Product) -> list[tuple[str, str]]:
    """Ten accounts that may query `flights` and `big` in their schema `bench`: their AccessKey pairs.

    A table lies in a bucket of its account, so that each has the files under names of its own.
    """
    lake = product.home / "lake"
    for number in range(ACCOUNTS):
        for name, folder in (("flights", "demo/flights"), ("big", "bench/big")):
            shutil.copytree(lake / _BUCKET / folder, lake / f"bench-{number}/bench" / name, copy_function=os.link)
    types = {"int64": "bigint", "double": "double", "string": "string"}
    columns = [{"name": field.name, "type": types[str(field.type)]} for field in _schema()]
    code = _CODE.format(accounts=ACCOUNTS, columns=json.dumps(columns))
    done = product.manage("shell", "--no-imports", "-c", code)
    lines = [line for line in done.stdout.splitlines() if line.startswith("KEYS ")]
    if not lines:
        raise RuntimeError(f"the accounts were not made: {done.stdout}{done.stderr}")
    return [(key, secret) for key, secret in json.loads(lines[0].removeprefix("KEYS "))]


def _schema() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("grp", pa.int64()), ("value", pa.float64()), ("name", pa.string())])
