"""The market: what can be known of installed plugins without importing any, and the lock.

The core's loader imports `netcl_market.market` where it is installed: a lock has to hold before
any plugin is imported. This package is a plugin besides, so that locks pin it and catalogues have
its commands; they are part of `netcl` without any plugin being loaded.
"""
