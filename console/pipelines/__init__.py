"""The one life of a pipeline: its states, versions, leases, savepoints, events and secrets.

A SQL job is one written as text (`console.jobs`). What runs is told by a plan (`analytics.pipelines.plan`).
"""
