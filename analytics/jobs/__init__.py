"""Samples of message counts, their rollups, and the curves read from them."""
