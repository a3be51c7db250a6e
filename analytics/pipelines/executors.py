"""On a cluster: whether its executors have what a pipeline needs of them.

Tasks run there, not where the pipeline was started. They read what a queue gave, keep the state of groups and joins,
and print, all in the pipeline's folder; and they read and write topics. So executors need the lake's folder under the
same path, Gantry's code, and a way to the brokers. Where one of these is missing a query would fail by whatever comes
first, keep its state on a disk of the executor's own, or wait without a word; so it is asked before queries begin.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from analytics import settings
from analytics.errors import EngineBusy, EngineLost, PipelineFailed, QueryFailed
from analytics.pipelines.checkpoints import Held
from analytics.sql import failures
from brokercore.client.errors import BrokerUnreachable, ClientError, RequestTimeout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analytics.sources.mq import Topic

log = logging.getLogger(__name__)

#: How long a cluster may have no executor for a pipeline, s: starting one takes some seconds.
PATIENCE_S = 60.0
_LOOK_S = 0.2
#: Of the connection to a broker, s.
_CONNECT_S = 5.0
#: Tasks that look, for each core that the application has now: so that every executor gets one.
_TASKS_A_CORE, _MOST_TASKS = 2, 64
_COLUMNS = "host string, problem string"
_MISSING = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_NO_EXECUTOR = (
    "The Spark cluster has had no executor for this worker for {} s: its machines are gone or do not reach this one"
    " (SPARK_LOCAL_IP), or other applications have all cores or memory (GANTRY_SPARK_CORES bounds what one takes)."
)
_NO_FOLDER = (
    "An executor of the Spark cluster cannot write the folder of the job's state: GANTRY_LAKE has to be one folder that"
    " all its machines share, under the same path and for the same user."
)
_NO_CODE = "An executor of the Spark cluster cannot run Gantry's code ({}): it needs the same release and libraries."


@dataclass(frozen=True)
class Needs:
    """What a task looks for on its machine. Spark only ever pickles it, since a topic has its key."""

    #: The state's folder. It bears the number of this start, so that no machine has one of that name by itself.
    folder: str
    topics: tuple[tuple[str, Topic], ...] = ()

    def look(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The machine's name and what is missing there, a row a task; an empty text for nothing."""
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"host": [socket.gethostname()], "problem": [self.problem()]})

    def problem(self) -> str:
        """What is missing here, as a sentence; empty for nothing."""
        if not os.access(self.folder, os.R_OK | os.W_OK | os.X_OK):
            return _NO_FOLDER
        return next(filter(None, (_problem_of(name, topic) for name, topic in self.topics)), "")


def _problem_of(name: str, topic: Topic) -> str:
    """Why the brokers of a table's topic cannot be reached from here; what they answer is no matter."""
    try:
        with topic.admin() as admin:
            brokers = admin.topics.route(topic.name).brokers
        for address in (address for broker in brokers for address in broker.addresses.values()):
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (BrokerUnreachable, RequestTimeout) as error:
        reason = str(error)
    except ClientError:  # a topic or a right that is missing is told where it is used
        return ""
    except OSError as error:
        reason = f"No connection to {address}: {error.strerror or error}."
    else:
        return ""
    return f"An executor of the Spark cluster cannot reach the brokers of the table {name}. {reason}"


class Executors:
    """Those of one pipeline's cluster; nothing to ask where tasks run in the driver's own process."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._is_cluster = not settings.load().is_local
        self._seen = time.monotonic()

    def check(self) -> None:
        """Raise EngineBusy when there has been none for so long: queries would wait, and nobody would hear of it."""
        if not self._is_cluster or self._any():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen >= PATIENCE_S:
            raise EngineBusy(_NO_EXECUTOR.format(f"{PATIENCE_S:g}"))

    def require(self, held: Held, topics: Sequence[tuple[str, Topic]]) -> None:
        """Wait for one, and let tasks look for the state's folder and the brokers of these tables.

        Raises PipelineFailed with what is missing, EngineBusy, EngineLost and PipelineFenced.
        """
        if not self._is_cluster:
            return
        while not self._any():
            self.check()
            time.sleep(_LOOK_S)
        for host, problem in self._asked(Needs(str(held.state), tuple(topics))):
            if problem:
                held.check()
                log.warning("%s: %s", host, problem)
                raise PipelineFailed(problem)

    def _any(self) -> bool:
        context: Any = self._spark.sparkContext._jsc.sc()
        return not context.getExecutorIds().isEmpty()

    def _asked(self, needs: Needs) -> Iterator[tuple[str, str]]:
        tasks = min(_TASKS_A_CORE * self._spark.sparkContext.defaultParallelism, _MOST_TASKS)
        try:
            told = self._spark.range(0, tasks, 1, tasks).mapInArrow(needs.look, _COLUMNS).toArrow().to_pydict()
        except Exception as error:
            translated = failures.translate(error)
            if isinstance(translated, EngineLost):
                raise translated from error
            if isinstance(translated, QueryFailed) and translated.condition == failures.BUSY:
                raise EngineBusy(translated.user_message) from error
            missing = _MISSING.search(failures.text_of(error))
            sentence = missing[1] if missing else translated.user_message.rstrip(".")
            raise PipelineFailed(_NO_CODE.format(sentence)) from error
        yield from set(zip(told["host"], told["problem"], strict=True))
