"""Instances, topics, groups, grants and policies as a file: read, compare, change."""
