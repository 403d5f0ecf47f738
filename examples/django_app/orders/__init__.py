"""Orders, and the invoices that are written for them by a job."""
