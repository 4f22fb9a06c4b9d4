"""Ten mistakes, each on a line that ends in `# mistake`: mypy must report these and nothing else."""

from __future__ import annotations

from pyspark.sql import DataFrame

import evenflow as ef


def mistakes(df: DataFrame) -> None:
    ef.keyd(df, "page")  # mistake
    ef.keyed("clicks", "page")  # mistake
    keyed = ef.keyed(df, "page")
    keyed.balance("auto", partitions=2.4)  # mistake
    keyed.agg(ef.count())  # mistake
    keyed.agg(hits="count")  # mistake
    ef.mean(3)  # mistake
    ef.grouping.DChoice()  # mistake
    query = keyed.agg(hits=ef.count()).writeStream.trigger(every="5 seconds").start()  # mistake
    query.wait()  # mistake
    rows: str = query.metrics()  # mistake
    print(rows)
