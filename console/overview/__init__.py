"""The start page: what of an account is there, how busy it is, what ran last."""
