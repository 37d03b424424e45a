"""64 ranks and a damaged file on executors in processes of their own, held against one machine."""

import compare
import memlab.spark
import pytest
from conftest import analyzed


@pytest.fixture(scope="module")
def result(cluster, job):
    with memlab.spark.analyze(cluster, job) as result:
        yield result


@pytest.fixture(scope="module")
def told(run, job):
    return analyzed(run, job)["ranks"]


def test_every_table_is_that_of_the_program(result, run, job, tmp_path):
    run("export", job, "-o", tmp_path / "fleet", "--partition", code=2)
    compare.assert_tables(result, tmp_path / "fleet", tmp_path, memlab.spark.TABLES)


def test_the_table_of_ranks_is_that_of_analyze(result, told):
    assert len(told["rows"]) == 64
    compare.assert_ranks(compare.rows(result.ranks), told)
    compare.assert_middles(compare.rows(result.medians), told)


def test_who_stands_apart_and_by_which_lines(result, told):
    assert told["outliers"]
    compare.assert_outliers(compare.rows(result.outliers), compare.rows(result.outlier_lines), told)


def test_who_failed_first(result, told):
    assert len(told["failure"]["ranks"]) >= 2
    compare.assert_failures(compare.rows(result.failures), told)


def test_steps_and_lines_side_by_side(result, told):
    assert told["steps"]
    compare.assert_steps(compare.rows(result.steps_across), told)
    lines = compare.rows(result.lines_across)
    assert lines and max(line["ranks"] for line in lines) >= 59
    assert all(line["median_bytes"] <= line["most_bytes"] for line in lines)


def test_the_damaged_file_is_told_and_stops_nothing(result, job):
    (failed,) = compare.rows(result.failed)
    assert failed["path"] == str(job / "rank999.pickle")
    assert failed["error"].startswith(f"failed to read {job}/rank999.pickle: the pickle ends before it is complete")
    assert result.files.count() == 64
