"""`netcl market`: who made a wheel and a record, and an index that serves them."""
