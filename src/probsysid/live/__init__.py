"""Live identification: from a sensor to a posterior on the screen.

In: a source of samples and a model or a study file.  Out: a posterior that follows the stream, on a page in the
browser, as JSON lines, as MQTT messages and in files; a message when the data stop fitting the model.
"""
