"""Who serves an op, and how fast each candidate was measured here."""
