"""Messages on their way: in, put off, held back, tried again, and out.

In: `drafts`, `incoming`, `traces`. Put off: `delayed_delivery` (when, and until then), `transactions` (until decided).
Out: `filtering`, `waiting` (long polling), `replies`. Given up: `dead_letters`.
"""
