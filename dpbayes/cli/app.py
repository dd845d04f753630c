"""Commands of the command line; each imports what it needs when it runs."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbayes import __version__
from dpbayes.cli import audit, compare, interrupts, simulate
from dpbayes.cli.failures import reporting
from dpbayes.errors import ParameterError, nearest_name

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Posterior distributions from differentially private releases.",
)


app.command()(audit.audit)
app.command()(compare.compare)
app.command()(simulate.simulate)


class Engine(StrEnum):
    """Engines of ``fit``."""

    auto = "auto"
    exact = "exact"
    nuts = "nuts"


class TableFormat(StrEnum):
    """How ``fit`` prints its summary."""

    table = "table"
    csv = "csv"
    json = "json"


class TextFormat(StrEnum):
    """How ``describe`` prints."""

    text = "text"
    json = "json"


_PRIORS = "scale-mixture, dirichlet, dirichlet:CONCENTRATION or smooth"
#: Endings of files that are read and must not be written.
_INPUTS = (".toml", ".csv", ".parquet", ".pq")

ReleaseArgument = Annotated[
    Path, typer.Argument(metavar="RELEASE.toml", help="Release file: what was published and how.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dpbayes {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def describe(
    release: ReleaseArgument,
    output: Annotated[
        TextFormat, typer.Option("--format", help="Text to read, or JSON.")
    ] = TextFormat.text,
    debug: DebugOption = False,
) -> None:
    """Say in words and units what was released, and what may be wrong with its description."""
    with reporting(debug, release):
        from dpbayes.cli.output import columns, print_json
        from dpbayes.io import describe as describe_release
        from dpbayes.io import read_release

        description = describe_release(read_release(release))
        if output is TextFormat.json:
            print_json(description.to_dict())
            return

        print(description.text(columns()), flush=True)


@app.command()
def fit(
    release: ReleaseArgument,
    report: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write an HTML report.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="OUT.nc", help="Save the posterior (NetCDF).")
    ] = None,
    ci_prob: Annotated[
        float, typer.Option(help="Probability of the intervals, between 0 and 1.")
    ] = 0.9,
    prior: Annotated[
        str | None,
        typer.Option(metavar="PRIOR", help=f"{_PRIORS}."),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws per chain.")] = 1000,
    chains: Annotated[int, typer.Option(min=1, help="Chains.")] = 4,
    tune: Annotated[
        int | None,
        typer.Option(min=1, help="Warm-up draws per chain, where a sampler runs."),
    ] = None,
    target_accept: Annotated[
        float,
        typer.Option(
            help="Target acceptance rate, where a sampler runs: nearer to 1, smaller steps."
        ),
    ] = 0.95,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed; a fresh one is drawn and shown otherwise.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="How to draw.")] = Engine.auto,
    output: Annotated[
        TableFormat, typer.Option("--format", help="Summary on standard output.")
    ] = TableFormat.table,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; the verdict only if it objects.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Fit the posterior of the original distribution P and of the true counts."""
    with reporting(debug):
        _check_probability("--ci-prob", ci_prob)
        _check_probability("--target-accept", target_accept)
        law = parse_prior(prior)
        files = _check_outputs(release, report=report, save=save)
    with reporting(debug, release):
        from dpbayes.io import read_release

        published = read_release(release)
        _check_kind(published, law, prior, engine)
    with reporting(debug):
        from dpbayes.inference import fit as fit_release

        posterior = fit_release(
            published,
            prior=law,
            draws=draws,
            chains=chains,
            random_seed=seed,
            engine=engine.value,
            tune=tune,
            target_accept=target_accept,
            progressbar=not quiet and sys.stderr.isatty(),
        )
        summary = posterior.summary(ci_prob=ci_prob)
        verdict = posterior.verdict()
        command = _command(seed, int(posterior.attrs["random_seed"]))
        _write(posterior, files, ci_prob, command)
        interrupts.wrote(*files.values())

        from dpbayes.cli import output as printed

        result = printed.Result(posterior, summary, verdict, ci_prob, command, files)
        printed.show(result, output.value, quiet)


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        meant = f" (did you mean {value / 100:g}?)" if 1 < value < 100 else ""
        raise ParameterError(f"{name} must be between 0 and 1, got {value:g}{meant}")


def parse_prior(text: str | None) -> Any:
    """Return the prior that an option such as ``dirichlet:0.5`` names; None for the default.

    Raises
    ------
    ParameterError
        If the name is unknown or the concentration is not a positive number.
    """
    if text is None:
        return None
    from dpbayes.priors import Dirichlet, ScaleMixture, Smooth

    name, colon, value = text.partition(":")
    known = {"scale-mixture": ScaleMixture, "dirichlet": Dirichlet, "smooth": Smooth}
    if name not in known:
        raise ParameterError(f"--prior must be {_PRIORS}, got {text!r}{nearest_name(name, known)}")
    if not colon:
        return known[name]()
    if name != "dirichlet":
        raise ParameterError(f"--prior {name} takes no number, got {text!r}")
    try:
        concentration = float(value)
    except ValueError:
        raise ParameterError(f"--prior dirichlet: takes a positive number, got {value!r}") from None
    return Dirichlet(concentration=concentration)


def _check_kind(published: Any, law: Any, prior: str | None, engine: Engine) -> None:
    """Refuse a prior or an engine that suits the other kind of release."""
    from dpbayes.priors import ScaleMixture, Smooth
    from dpbayes.releases import RecordRelease

    if isinstance(published, RecordRelease):
        if law is not None and not isinstance(law, Smooth):
            raise ParameterError(f"--prior {prior} is for histograms: records take --prior smooth")
        if engine is Engine.exact:
            raise ParameterError("--engine exact is for histograms: records take auto or nuts")
        return
    if isinstance(law, Smooth):
        raise ParameterError(
            "--prior smooth is for records: a histogram takes --prior scale-mixture, dirichlet "
            "or dirichlet:CONCENTRATION"
        )
    if engine is Engine.nuts and (law is None or isinstance(law, ScaleMixture)):
        raise ParameterError("--engine nuts of a histogram takes --prior dirichlet: give it too")


def _check_outputs(release: Path, **outputs: Path | None) -> dict[str, Path]:
    """Check before any work that the files can be written and overwrite nothing else."""
    from dpbayes.io.atomic import check_writable

    files = {
        name: check_writable(path, f"--{name}")
        for name, path in outputs.items()
        if path is not None
    }
    seen = {release.resolve(): "the release file"}
    for name, path in files.items():
        if path.suffix.lower() in _INPUTS:
            raise ParameterError(
                f"--{name} must not end in {path.suffix}, got {str(path)!r}: "
                "it could overwrite a release or its data"
            )
        other = seen.get(path.resolve())
        if other:
            raise ParameterError(f"--{name} must not be {other}, got {str(path)!r}")
        seen[path.resolve()] = f"the file of --{name}"
    return files


def _command(seed: int | None, used: int) -> str:
    """Return the command line that makes the same result again."""
    again = [] if seed is not None else ["--seed", str(used)]
    return shlex.join(["dpbayes", *sys.argv[1:], *again])


def _write(posterior: Any, files: dict[str, Path], ci_prob: float, command: str) -> None:
    """Write all files or none: each gets its name only when the last one is complete."""
    from contextlib import ExitStack

    from dpbayes.io.atomic import atomic_path

    interrupts.writing()
    with ExitStack() as stack:
        temporary = {name: stack.enter_context(atomic_path(path)) for name, path in files.items()}
        if "report" in temporary:
            posterior.report(temporary["report"], ci_prob=ci_prob, command=command)
        if "save" in temporary:
            posterior.save(temporary["save"])
        interrupts.check()
