"""The paper as data, its reproduction, and benchmarks against other code. Imports `lrcssm`, and is never imported by it."""
