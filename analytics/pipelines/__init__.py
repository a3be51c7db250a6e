"""Pipelines on Structured Streaming: sources, steps and sinks as a plan tells them."""
