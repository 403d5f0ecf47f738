"""What the tests stand between Foliot and the world."""
