"""The store: the only place where processes meet. `port.py` is the contract; two adapters keep it."""
