"""Reductions and scans as loops, accumulators and exchanges between work-items."""
