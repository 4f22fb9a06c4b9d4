"""What a storage says becomes one sentence with an address and a remedy."""

import pytest

from evenflow.state.errors import CheckpointError, explained
from evenflow.storage.store_errors import Problem, failure

PLACE = "s3://bucket/ckpt/evenflow/manifests/0.json"


@pytest.mark.parametrize("problem", list(Problem))
def test_what_a_store_refuses_has_a_remedy_of_its_own(problem):
    with pytest.raises(CheckpointError) as caught, explained("write", PLACE):
        raise failure(problem, PLACE, "403")
    text = str(caught.value)
    assert text.startswith(f"cannot write {PLACE}: {problem.sentence} (403); ")
    assert "disk" not in text
    assert "backup" not in text
