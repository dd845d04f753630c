"""Posteriors on disk: one NetCDF file, written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import xarray as xr

from dpbayes.errors import ReleaseFileError
from dpbayes.io.atomic import atomic_path
from dpbayes.releases import RateRelease
from dpbayes.schema import FORMAT, FORMAT_VERSION, OBSERVED, RELEASED

if TYPE_CHECKING:
    from dpbayes.posterior.posterior import Posterior

__all__ = ["load", "save"]

_RELEASE = "release"
#: First bytes of a NetCDF-4 file.
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def save(posterior: Posterior, path: str | os.PathLike[str]) -> None:
    """Write a posterior to NetCDF; the file appears under its name only when complete."""
    from dpbayes.io.serialise import release_to_dict

    tree = posterior.data.copy()
    tree.attrs = {
        **posterior.data.attrs,
        _RELEASE: json.dumps(release_to_dict(posterior.release, values=False)),
    }
    with atomic_path(path) as temporary:
        tree.to_netcdf(temporary, engine="h5netcdf")


def load(path: str | os.PathLike[str]) -> Posterior:
    """Read a posterior that `Posterior.save` wrote.

    Parameters
    ----------
    path : path
        NetCDF file.

    Raises
    ------
    ReleaseFileError
        If the file is not a posterior of dpbayes, or of a version that this one cannot read.
    FileNotFoundError
        If there is no such file.
    """
    from dpbayes.io.serialise import release_from_dict
    from dpbayes.posterior.posterior import Posterior
    from dpbayes.posterior.rates import RatePosterior

    where = Path(path)
    if not where.is_file():
        raise FileNotFoundError(f"no such file: {where}")
    with where.open("rb") as file:
        if file.read(len(_SIGNATURE)) != _SIGNATURE:
            raise ReleaseFileError(
                f"{where} is no saved posterior: load reads the NetCDF files that Posterior.save "
                f"and dpbayes fit --save write{_other(where)}"
            )
    try:
        with xr.open_datatree(where, engine="h5netcdf") as opened:
            tree = opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise ReleaseFileError(
            f"{where} is damaged (cut short while it was copied?) or not written by Posterior.save"
        ) from error
    if tree.attrs.get("format") != FORMAT:
        raise ReleaseFileError(f"{where} was not written by Posterior.save")
    version = tree.attrs.get("format_version")
    if version != FORMAT_VERSION:
        raise ReleaseFileError(
            f"{where} has format version {version}, this dpbayes reads {FORMAT_VERSION}"
        )
    if _RELEASE not in tree.attrs:
        raise ReleaseFileError(f"{where} lacks the release: was it written by Posterior.save?")
    values = tree[OBSERVED][RELEASED].values
    release = release_from_dict(json.loads(tree.attrs.pop(_RELEASE)), values)
    return (RatePosterior if isinstance(release, RateRelease) else Posterior)(tree, release)


def _other(path: Path) -> str:
    """Say what reads a release file."""
    if path.suffix.lower() != ".toml":
        return ""
    return "; release files are read by dpbayes.io.read_release"
