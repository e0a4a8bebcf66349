"""What can be known of installed plugins without importing any of them."""
