"""memlab on Apache Spark: many recordings, analysed where the executors are.

    import memlab.spark

    result = memlab.spark.analyze(spark, "traces/")
    result.ranks.show()      # one row per rank, as in `memlab analyze traces/`
    result.failed.show()     # files that gave nothing, and why

Every file goes through the memlab program once; what Spark reduces are its tables. docs/spark.md says more.
Needs `pip install memlab[spark]`; importing `memlab` alone never imports PySpark.
"""

from .run import TABLES, analyze, read
from .result import Result
from .shipping import ship

__all__ = ["TABLES", "Result", "analyze", "read", "ship"]
