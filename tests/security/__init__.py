"""Attacks on the console, the doors and the broker, a file a class: each is written as an attacker would do it."""
