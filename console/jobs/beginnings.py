"""Texts that a new job may begin with."""

from __future__ import annotations

from console.web.languages import gettext_lazy

_EXAMPLE = """\
-- Generated rows, counted by the minute: it runs as it is, and its rows are in the job's log.
CREATE TEMPORARY TABLE visits (
  page INT,
  at TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '10',
  'fields.page.min' = '1',
  'fields.page.max' = '5'
);

CREATE TEMPORARY TABLE shown (page INT, since TIMESTAMP(3), visits BIGINT) WITH ('connector' = 'print');

INSERT INTO shown
SELECT page, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY page, window_start, window_end;
"""
_QUEUE_TO_TOPIC = """\
-- Messages of the account's queue orders, filtered into its topic large_orders. Write the ID of the topic's instance.
-- With an endpoint and a key, of which ID and secret are secrets of the account, they may be anywhere.
SET 'execution.checkpointing.interval' = '10s';

CREATE TEMPORARY TABLE orders (
  id BIGINT,
  customer STRING,
  amount DOUBLE
) WITH (
  'connector' = 'mns',
  'queueName' = 'orders',
  'format' = 'json',
  'batchSize' = '16'
);

CREATE TEMPORARY TABLE large_orders (id BIGINT, customer STRING, amount DOUBLE) WITH (
  'connector' = 'mq',
  'instanceID' = 'MQ_INST_of_yours',
  'topic' = 'large_orders',
  'producerGroup' = 'GID_large_orders',
  'fieldDelimiter' = ','
);

INSERT INTO large_orders SELECT id, customer, amount FROM orders WHERE amount > 100;
"""
#: By the word of the form: its label and the text.
BEGINNINGS = {
    "example": (gettext_lazy("An example that runs as it is: generated rows, counted by the minute"), _EXAMPLE),
    "queue": (gettext_lazy("From a queue to a topic"), _QUEUE_TO_TOPIC),
    "empty": (gettext_lazy("Nothing"), ""),
}
