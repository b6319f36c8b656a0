"""Measured data from files: csv, tsv, parquet, MATLAB and NumPy archives, one module per format.

In: a path, and which columns are which channels.  Out: a `Table` of columns, or a `Record` with notes on the file.

table = read_table("measurement.csv")
table.names                                  # ('t', 'F', 'x')
record, notes = read_record(
    "measurement.csv", time="t", inputs={"force": Channel("F", unit="N")}, outputs={"position": Channel("x")}
)
"""

from probsysid.data.readers.read import read_table
from probsysid.data.readers.records import Channel, read_record
from probsysid.data.readers.table import Table

__all__ = ["Channel", "Table", "read_record", "read_table"]
