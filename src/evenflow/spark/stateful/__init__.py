"""PySpark's stateful processors on the engine: state variables, timers, DataFrames and Rows."""
