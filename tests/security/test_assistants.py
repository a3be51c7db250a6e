"""An assistant at the web server as the launcher starts it: what its policies allow, and no secret in the log."""

from __future__ import annotations

import pytest
from django.conf import settings

from console.accounts import services as accounts
from tests.console.openapi.mcp.conftest import Assistant, authorization
from tests.support.cast import Cast
from tests.support.redis_server import RedisServer
from tests.support.web_server import web_server

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_does_what_its_policies_allow_and_leaves_no_secret(cast: Cast, redis: RedisServer) -> None:
    key = accounts.create_access_key(actor=cast.actor("rita"), user=cast.rita)
    given = authorization(key)
    with web_server(redis, gantry_secret_key=settings.SECRET_KEY, gantry_master_key=settings.MASTER_KEY) as web:
        rita = Assistant(f"{web.url}/mcp", given)
        shown = rita.tools()
        assert "topic_get" in shown
        assert "topic_delete" not in shown
        assert [one["instanceId"] for one in rita.data("instance_list")] == [cast.instance.instance_id]
        assert rita.symbol("instance_delete", instanceId=cast.instance.instance_id) == "AUTH_PERMISSION_DENIED"
        with pytest.raises(Exception, match="its secret or its security token is not valid"):
            Assistant(rita.url, {"Authorization": f"{given['Authorization']}wrong"}).tools()
        assert key.access_key_secret not in web.log.read_text()


def test_it_finds_nothing_where_that_is_turned_off(cast: Cast, redis: RedisServer) -> None:
    with web_server(redis, gantry_mcp="false") as web, pytest.raises(Exception, match="Not Found"):
        Assistant(f"{web.url}/mcp", {"Authorization": "Bearer LTAInobody:secret"}).tools()
