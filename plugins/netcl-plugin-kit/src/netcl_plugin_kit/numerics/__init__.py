"""What `ag.detect_anomaly(check_numerics=True)` asks: whether gradients fit their forwards."""
