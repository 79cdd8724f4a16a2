"""From runs to numbers, tables and figures. Results are read from files alone: no engine and no JAX is needed."""
