"""The page of a live run: a Bokeh server that shows the engine's feed.

In: the feed.  Out: a page in the browser; from there only clicks come back, and a short text for a mark.
"""
