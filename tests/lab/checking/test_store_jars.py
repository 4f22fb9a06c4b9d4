"""Which jars Spark gets for s3a://: by the version of its Hadoop client."""

import pytest

from evenflow.model import InputError
from evenflow_lab.checking.store_jars import JARS, hadoop_version, s3a_jars


def test_the_version_is_that_of_sparks_hadoop_client(tmp_path):
    (tmp_path / "hadoop-client-api-3.4.2.jar").touch()
    (tmp_path / "hadoop-client-runtime-3.4.2.jar").touch()
    assert hadoop_version(tmp_path) == "3.4.2"


def test_a_spark_without_hadoop_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no hadoop-client-api-\*\.jar in"):
        hadoop_version(tmp_path)


def test_a_version_without_a_list_is_refused():
    with pytest.raises(InputError, match=r"no archives for 's3a-2\.7\.3', only for .*s3a-3\.5\.0"):
        s3a_jars("2.7.3")


@pytest.mark.parametrize("version", ["3.5.0", "3.4.2"])
def test_the_lock_names_whole_archives_once_and_hadoops_own(version):
    archives = JARS.locked(f"s3a-{version}")
    names = [archive.name for archive in archives]
    assert len(names) == len(set(names))
    assert all(len(archive.digest) == 64 for archive in archives)
    assert [a.version for a in archives if a.name == "hadoop-aws"] == [version]
