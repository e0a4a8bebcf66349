"""Settings that commands write: which plugins are on, and who serves an op."""
