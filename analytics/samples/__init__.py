"""Samples of message counts: kept (`files`), summed up per minute (`rollup`), and read as curves (`series`).

Importing them starts nothing and imports neither Spark nor Arrow.
"""
