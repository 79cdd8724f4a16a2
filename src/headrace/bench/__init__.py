"""How fast agents learn on this machine, and how near that is to what the machine can do."""
