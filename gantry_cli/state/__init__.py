"""Instances, topics, groups, grants, queues, SQL jobs and policies as a file: read, compare, change."""
