"""What follows a commit may fail; the change is made and answered all the same."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import transaction
from redis.exceptions import ConnectionError as RedisGone

from console.web.after_commit import after_commit

pytestmark = pytest.mark.django_db(transaction=True)


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("error", [OSError("full"), RedisGone("gone"), ValueError("odd"), AttributeError("mistake")])
@pytest.mark.parametrize("action", [fail, partial(fail)], ids=["function", "partial"])
def test_no_error_reaches_whoever_committed(action: object, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    with transaction.atomic():
        after_commit(action, error)  # type: ignore[arg-type]
        after_commit(done.append, 1)
    assert done == [1], "what comes after it is done"
    assert str(error) in caplog.text


def test_outside_of_a_transaction_it_is_done_at_once_and_its_error_stays_too() -> None:
    after_commit(partial(fail, ValueError("odd")))


def test_what_was_rolled_back_is_not_followed_by_anything() -> None:
    done: list[int] = []
    with pytest.raises(ValueError, match="odd"), transaction.atomic():
        after_commit(done.append, 1)
        fail(ValueError("odd"))
    assert done == []
