"""The worker: claim, run, finish."""
