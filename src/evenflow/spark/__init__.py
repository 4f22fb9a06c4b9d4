"""Evenflow on Spark. The only place that knows pyspark."""
