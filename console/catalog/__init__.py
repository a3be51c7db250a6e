"""Schemas, tables, buckets and files of an account, and their definitions."""
