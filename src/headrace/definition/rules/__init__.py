"""The value-learning rules, one file each: importing it makes them known to `init_td`, `replay` and `update_td`."""
