"""Contents of a page: numbers as text (`formatting`), interactive Bokeh figures (`series`, `residuals`, `sampling`),
downsampling of long series, and rendering of templates.  In: the views of `report.views`.  Out: text, Bokeh models.
"""
