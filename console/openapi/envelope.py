"""The one shape of every answer of the management API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpResponse

from console.openapi import codes


@dataclass(frozen=True)
class Page:
    """One page of a paged list: `entries` of page `number` (from 1), `size` a page, `total` in all."""

    entries: Sequence[Any]
    number: int
    size: int
    total: int


def success(data: Any, request_id: str) -> HttpResponse:
    """Code 200 with `data`, or with the entries and the numbers of a Page."""
    page = data if isinstance(data, Page) else Page([], 0, 0, 0)
    return _json(
        {
            "success": True,
            "code": 200,
            "status": "SUCCESS",
            "message": "operation success",
            "data": page.entries if data is page else data,
            "currentPage": page.number,
            "pageSize": page.size,
            "total": page.total,
            "dynamicCode": "",
            "dynamicMessage": "",
            "requestId": request_id,
            "helpUrl": None,
        }
    )


def failure(symbol: str, detail: str, request_id: str, *, status: int = 200) -> HttpResponse:
    """The symbol stands in `status` and `dynamicCode`; the transport status stays 200, so that old callers parse.

    GANTRY_API_STRICT_CODES answers the vendor's nearest symbol where the symbol is our own.
    """
    symbol = codes.told(symbol, strict=settings.API_STRICT_CODES)
    code = codes.CODES[symbol]
    return _json(
        {
            "success": False,
            "code": code.code,
            "status": symbol,
            "message": code.message,
            "data": None,
            "currentPage": 0,
            "pageSize": 0,
            "total": 0,
            "dynamicCode": symbol,
            "dynamicMessage": detail,
            "requestId": request_id,
            "helpUrl": None,
        },
        status,
    )


def _json(fields: dict[str, Any], status: int = 200) -> HttpResponse:
    return HttpResponse(orjson.dumps(fields), content_type="application/json", status=status)
