"""Reports and figures.

`page` writes a self-contained HTML page: `views` says what it shows, `sections` turn results into text and figures,
`html` has number formats and interactive figures, `templates` the layout.  `figures` are matplotlib, for papers.
In: posteriors, records, simulations.  Out: HTML text and matplotlib figures; nothing here changes a result.
"""
