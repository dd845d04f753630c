"""Tests of the tests: nothing that looks like a check may be silently skipped."""

import ast
import inspect
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("test_*.py"))
TREES = {str(path.relative_to(TESTS)): ast.parse(path.read_text()) for path in FILES}
HARNESS = "BaseTestDistributionRandom"


@pytest.mark.parametrize("name", TREES)
def test_no_comparison_without_assert(name):
    bare = [
        node.lineno
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare)
    ]
    assert not bare, f"comparisons that check nothing in lines {bare}"


def _checks(function):
    """Whether a test holds an assertion, or calls something whose name says that it does."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if any(word in called for word in ("assert", "check", "raises", "warns", "refuse")):
                return True
    return False


@pytest.mark.parametrize("name", TREES)
def test_every_test_checks_something(name):
    idle = [
        node.name
        for node in ast.walk(TREES[name])
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not _checks(node)
    ]
    assert not idle


@pytest.mark.parametrize("name", TREES)
def test_no_test_hides_another_of_its_name(name):
    names = [node.name for node in TREES[name].body if isinstance(node, ast.FunctionDef)]
    assert len(names) == len(set(names)), [n for n in names if names.count(n) > 1]


def test_settings_of_the_pymc_harness_are_ones_that_it_reads():
    classes = [
        (name, node)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(HARNESS in ast.unparse(b) for b in node.bases)
    ]
    testing = pytest.importorskip("pymc.testing")
    base = getattr(testing, HARNESS)
    source = inspect.getsource(base)
    known = {"pymc_dist", "pymc_dist_params", "checks_to_run", "expected_rv_op_params"}
    assert all(f"self.{setting}" in source for setting in known)
    for name, node in classes:
        for item in node.body:
            targets = item.targets if isinstance(item, ast.Assign) else []
            for target in targets:
                assert f"self.{target.id}" in source, f"{name}: {node.name}.{target.id} is not read"
                if target.id == "checks_to_run":
                    for check in ast.literal_eval(item.value):
                        defined = {i.name for i in node.body if isinstance(i, ast.FunctionDef)}
                        assert hasattr(base, check) or check in defined, f"{name}: no {check}"
