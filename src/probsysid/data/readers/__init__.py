"""Measured data from files: csv, tsv, parquet, MATLAB and NumPy archives.

table = read_table("measurement.csv")
table.names                                  # ('t', 'F', 'x')
record, notes = read_record(
    "measurement.csv", time="t", inputs={"force": Channel("F", unit="N")}, outputs={"position": Channel("x")}
)
"""

from probsysid.data.readers.records import Channel, read_record
from probsysid.data.readers.table import Table, read_table

__all__ = ["Channel", "Table", "read_record", "read_table"]
