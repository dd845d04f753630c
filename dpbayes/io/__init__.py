"""Files: release files, descriptions of releases, and whole-or-absent writing."""

from dpbayes.io.atomic import atomic_path
from dpbayes.io.describe import Description, describe
from dpbayes.io.release_file import read_release

__all__ = ["Description", "atomic_path", "describe", "read_release"]
