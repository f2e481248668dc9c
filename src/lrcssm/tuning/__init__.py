"""Sweeps: many runs with different settings, by any number of processes, on Optuna."""
