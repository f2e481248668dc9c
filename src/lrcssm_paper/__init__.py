"""The paper's tables as data, their reproduction, and benchmarks against other code. Imports `lrcssm`, and is never imported by it."""
