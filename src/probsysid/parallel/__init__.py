"""What runs the work: threads over the cores of a processor, shards over devices."""
