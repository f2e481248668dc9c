"""Hyper-parameter searches with Optuna: many runs with different settings, by any number of processes."""
