"""The capture of changes, with real databases; what becomes of them."""
