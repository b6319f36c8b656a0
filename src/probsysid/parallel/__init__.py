"""What runs the work on particles: threads over cores, programs sharded over devices.

In: tasks that each evaluate a slice of the particles.  Out: their results, in order.  Everything that evaluates
particles is handed an `Executor`; nothing here knows what a task computes.
"""
