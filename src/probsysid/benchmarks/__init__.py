"""Three public benchmarks of nonlinear system identification: Bouc-Wen, Silverbox and EMPS.

In come the published data files, located or downloaded by `data`; each case defines its model, priors and scores.
Out goes one folder per run, written by `batch`: posterior, scores against paper and limit, figures and report.
"""
