"""Starts, watches and stops every process of one Gantry copy on one machine."""
