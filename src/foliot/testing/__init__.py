"""What a project that uses Foliot may want in its own tests."""
