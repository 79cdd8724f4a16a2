"""The report: a page of all runs that opens from a disk, with every figure and table beside it."""
