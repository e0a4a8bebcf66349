"""`netcl plugins new`: a plugin's project that passes its own check, to write an op into."""
