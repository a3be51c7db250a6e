"""Instances, topics, groups, grants, queues, SQL jobs, alarm rules and policies as a file: read, compare, change."""
