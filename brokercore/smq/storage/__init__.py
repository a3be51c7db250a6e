"""Queues and their messages in Redis: every change of a queue is one script, so it is done whole or not at all."""
