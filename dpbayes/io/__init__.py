"""Files: release files, descriptions of releases, and whole-or-absent writing."""

from dpbayes.io.atomic import atomic_path
from dpbayes.io.release_file import read_release

__all__ = ["atomic_path", "read_release"]
