"""Who sends a request, what it may do, and how much of the broker its account may take.

`authentication` finds the caller, `named_resources` what a request names, `permissions` what it needs for that;
`account`, `limits` and `tenant_use` are about how much; `refusals` tells of those that were turned away.
"""
