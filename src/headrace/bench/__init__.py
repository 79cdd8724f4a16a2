"""`headrace bench`: how fast agents learn on this machine, beside what the machine can do."""
