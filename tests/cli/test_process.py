"""The command in a process of its own: what it loads, and how Ctrl-C ends it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "notebooks" / "data"
MAIN = "import sys; from dpbayes.cli import main; main()"
HEAVY = ("pymc", "pytensor", "arviz", "matplotlib", "nutpie", "h5netcdf")


def loaded(*arguments):
    code = (
        "import atexit, sys\n"
        f"show = lambda: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)\n"
        f"atexit.register(show)\n{MAIN}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1]


def test_describe_loads_nothing_heavy():
    assert loaded("describe", str(DATA / "customers_by_spend.toml")) == "[]"


def test_fit_of_a_histogram_loads_no_pymc():
    words = loaded("fit", str(DATA / "customers_by_spend.toml"), "--draws", "20")
    assert "pymc" not in words
    assert "pytensor" not in words


def interrupt(folder, wait, *arguments):
    """Start a fit, press Ctrl-C once `wait` says so, and return the finished process."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "fit", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("seconds", [1.0, 6.0])
def test_interrupted_fit_leaves_nothing(tmp_path, seconds):
    status, out, err = interrupt(
        tmp_path,
        lambda process: time.sleep(seconds),
        str(DATA / "buyers_by_month.toml"),
        "--draws", "400000", "--prior", "dirichlet", "--save", "out.nc",
    )  # fmt: skip
    assert (status, out, err) == (130, "", "interrupted: nothing was written\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupted_while_writing(tmp_path):
    slow = (
        "import pathlib, time, dpbayes.posterior as p\n"
        "def save(self, path):\n"
        "    pathlib.Path(path).write_text('half'); print('writing', flush=True); time.sleep(60)\n"
        f"p.Posterior.save = save\n{MAIN}"
    )
    words = ["fit", str(DATA / "buyers_by_month.toml"), "--draws", "20", "--save", "out.nc"]
    words += ["--prior", "dirichlet"]
    process = subprocess.Popen(
        [sys.executable, "-c", slow, *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "interrupted: nothing was written\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(
    "after",
    ["raise RuntimeError('a consequence')", "return real(self, path)", "while True: pass"],
)
def test_interrupt_that_compiled_code_swallows(tmp_path, after):
    # ctypes prints and drops an exception that leaves a callback, as LLVM's does.
    swallow = (
        "import ctypes, os, signal, dpbayes.posterior as p\n"
        "real = p.Posterior.save\n"
        "press = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        f"def save(self, path):\n    press()\n    {after}\n"
        f"p.Posterior.save = save\n{MAIN}"
    )
    words = ["fit", str(DATA / "buyers_by_month.toml"), "--draws", "20", "--save", "out.nc"]
    words += ["--prior", "dirichlet"]
    done = subprocess.run(
        [sys.executable, "-c", swallow, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "interrupted: nothing was written\n")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupted_while_printing_names_the_files(tmp_path):
    code = (
        "import dpbayes.cli.output as o, os, signal\n"
        "o.show = lambda *_: os.kill(os.getpid(), signal.SIGINT)\n"
        f"{MAIN}"
    )
    words = ["fit", str(DATA / "buyers_by_month.toml"), "--draws", "20", "--save", "out.nc"]
    words += ["--prior", "dirichlet"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "interrupted: out.nc was written\n")
    assert os.listdir(tmp_path) == ["out.nc"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupt_during_one_long_call_of_compiled_code(tmp_path):
    # ctypes lets other threads run but no handler of the main one; sleep() goes on after a signal.
    code = (
        "import ctypes, dpbayes.inference as i, dpbayes.cli.interrupts as n\n"
        "n.PATIENCE = 0.1\n"
        "def fit(*_, **__):\n"
        "    print('fitting', flush=True)\n"
        "    while True: ctypes.CDLL(None).sleep(60)\n"
        f"i.fit = fit\n{MAIN}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "fit", str(DATA / "buyers_by_month.toml")],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "fitting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted: nothing was written\n")
