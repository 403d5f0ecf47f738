"""Where a job's function runs: the event loop, a thread, a child process."""
