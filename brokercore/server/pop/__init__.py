"""POP consumption: the broker hands messages out one by one, and takes them back when nobody acknowledges them."""
