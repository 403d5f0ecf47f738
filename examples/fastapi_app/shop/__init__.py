"""A shop: `api.py` takes orders, `jobs.py` has what is done about them later."""
