"""Pages about the benchmarks: docs/benchmarks.md, an ablation of the paper's choices, and a study of realisations.

In come the folders written by `probsysid benchmark ... --out RESULTS`; out go a Markdown page, its figures, and JSON.
"""
