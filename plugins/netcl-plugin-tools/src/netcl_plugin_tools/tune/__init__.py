"""`netcl tune`: measures the settings of implementations that have a space, and keeps records."""
