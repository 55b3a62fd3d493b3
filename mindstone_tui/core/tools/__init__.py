"""What the agent can do: tools as data, who may use them, and what confines them.

A `Tool` is a value. It runs only through `approvals.carry_out`, with an `Approval` that holds the
exact bytes a person or a rule agreed to. Text that comes back is blacked out, bounded and delimited
before anyone sees it.
"""
