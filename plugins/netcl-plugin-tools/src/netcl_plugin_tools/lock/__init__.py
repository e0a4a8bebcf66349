"""`netcl plugins lock`: writes the lock file and checks it; the core reads it."""
