"""The Python of the README, docs/examples.md and docs/scikit-learn.md runs; so does the README's
test command, in continuous integration."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = [
    block
    for text in (
        README,
        *((ROOT / "docs" / page).read_text() for page in ("examples.md", "scikit-learn.md")),
    )
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
]
"""The README's first."""


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_block_runs(block):
    exec(compile(block, "README.md", "exec"), {})


def test_shell_commands_are_two_and_ci_runs_the_second():
    commands = re.findall(r"```sh\n(.*?)\n```", README, flags=re.DOTALL)
    assert len(commands) == 2
    assert commands[1] in (ROOT / ".ci" / "run").read_text()
