"""Writes spark_hashes.json: what a real Spark hashes columns of every type to.

Run it with the tests' folder on the path and a Java at hand:

    PYTHONPATH=tests python tests/golden/make_spark_hashes.py
"""

import json
import os
import sys
from pathlib import Path

import pyarrow as pa

from spark_columns import column, seeded_columns, to_json

ROWS, SEED = 24, 1
TARGET = Path(__file__).with_name("spark_hashes.json")


def main():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import pyspark
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    columns = seeded_columns(ROWS, SEED)
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table([column(kind, values) for kind, values in columns], names)
    frame = spark.createDataFrame(table)
    hashes = frame.select(
        *(F.hash(name).alias(f"hash_{name}") for name in names),
        *(F.xxhash64(name).alias(f"xxhash64_{name}") for name in names),
        F.hash(*names).alias("hash_row"),
        F.xxhash64(*names).alias("xxhash64_row"),
    ).toArrow()

    def line(content):
        return json.dumps(content, ensure_ascii=True)

    lines = []
    for name, (kind, values) in zip(names, columns, strict=True):
        lines += [
            f'  {{"kind": {line(kind)},\n'
            f'   "values": {line([to_json(v) for v in values])},\n'
            f'   "hash": {line(hashes[f"hash_{name}"].to_pylist())},\n'
            f'   "xxhash64": {line(hashes[f"xxhash64_{name}"].to_pylist())}}}'
        ]
    TARGET.write_text(
        f'{{"spark": {line(pyspark.__version__)},\n "columns": [\n'
        + ",\n".join(lines)
        + f'],\n "rows": {{\n   "hash": {line(hashes["hash_row"].to_pylist())},\n'
        + f'   "xxhash64": {line(hashes["xxhash64_row"].to_pylist())}}}}}\n'
    )
    spark.stop()
    print(f"{TARGET}: {len(columns)} columns of {ROWS} rows, by Spark {pyspark.__version__}")


if __name__ == "__main__":
    main()
