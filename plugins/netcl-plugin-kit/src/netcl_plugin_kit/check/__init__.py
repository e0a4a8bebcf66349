"""The check of one plugin, `netcl plugins check`: what it reads, loads and runs, and the record.

It stands on the kit, `testing`, which a plugin's own tests run as well.
"""
