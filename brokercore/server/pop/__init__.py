"""POP consumption: the broker hands messages out one by one, and takes them back when nobody acknowledges them.

`request` is one POP, `in_flight` what is handed out; who consumes so is in `storage.groups`.
"""
