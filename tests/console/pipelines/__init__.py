"""Pipelines: their life, and what users do with them."""
