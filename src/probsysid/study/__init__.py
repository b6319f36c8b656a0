"""Study files: the commands `new`, `check`, `fit` and `report`.

In come a TOML file and data files; `study_file` validates the text, `resolve` reads data and builds models.
Out goes a folder of results, written by `run`: posterior, summary, figures and report.
"""
