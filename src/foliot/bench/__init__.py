"""What this machine can do: real workers, real submissions, every call counted outside the store."""
