"""What gets installed is what is on disk: every package once, with its data, and the command."""

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # comes with pytest there

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
PACKAGES = SETUPTOOLS["packages"]


def _folders() -> dict[str, Path]:
    """Package name -> folder, for every folder with an ``__init__.py``; symlinks are not followed."""
    roots = {
        "vit_edge": ROOT / "vit_edge",
        "vit_edge.export": ROOT / "export",
        "vit_edge.runtime": ROOT / "runtime",
    }
    found = {}
    for name, root in roots.items():
        for init in root.rglob("__init__.py"):
            parts = init.parent.relative_to(root).parts
            if not any((root / Path(*parts[:n])).is_symlink() for n in range(1, len(parts) + 1)):
                found[".".join([name, *parts])] = init.parent
    return found


def _expected_files() -> list[str]:
    files = []
    for package, folder in _folders().items():
        patterns = ["*.py", *SETUPTOOLS["package-data"].get(package, [])]
        inside = (path.relative_to(folder) for pattern in patterns for path in folder.glob(pattern))
        files += [f"{package.replace('.', '/')}/{path.as_posix()}" for path in inside]
    return sorted(files)


def _build(kind: str, source: Path, out: Path) -> Path:
    """Build a ``wheel`` or an ``sdist`` of the tree at ``source`` with the installed setuptools."""
    call = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
    run = subprocess.run([sys.executable, "-c", call], cwd=source, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return out / run.stdout.splitlines()[-1]


def _package_files(wheel: Path) -> list[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return sorted(name for name in names if ".dist-info/" not in name)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a distribution is built from, symlinks kept, leftovers of earlier builds left out."""
    copy = tmp_path / "tree"
    copy.mkdir()
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    for folder in ("vit_edge", "export", "runtime"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_package_list_equals_folders_on_disk() -> None:
    assert sorted(PACKAGES) == sorted(_folders())


def test_mapped_folders_are_the_ones_on_disk() -> None:
    for package, folder in _folders().items():
        mapped = next(p for p in (package, package.rpartition(".")[0]) if p in SETUPTOOLS["package-dir"])
        below = package[len(mapped) :].replace(".", "/")
        assert (ROOT / f"{SETUPTOOLS['package-dir'][mapped]}{below}").samefile(folder)


@pytest.mark.parametrize("link", ["export", "runtime"])
def test_symlinks_for_type_checkers_are_relative(link: str) -> None:
    assert (ROOT / "vit_edge" / link).readlink() == Path("..") / link


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_can_be_imported_and_says_what_it_is(package: str) -> None:
    assert importlib.import_module(package).__doc__


def test_version_is_the_installed_one() -> None:
    assert metadata.version("vit-edge") == importlib.import_module("vit_edge").__version__


def test_command_is_installed_and_can_be_loaded() -> None:
    (command,) = metadata.entry_points(group="console_scripts", name="vit-edge")
    assert callable(command.load())
    assert shutil.which("vit-edge", path=str(Path(sys.executable).parent))


def test_base_dependencies_are_light() -> None:
    names = {re.split(r"[^\w-]", requirement)[0] for requirement in PYPROJECT["project"]["dependencies"]}
    assert names == {"click", "numpy", "onnxruntime", "pillow"}


def test_every_direct_dependency_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower()
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    wanted = [*PYPROJECT["project"]["dependencies"], *(line for extra in extras for line in extra)]
    names = {re.split(r"[^\w-]", line)[0].lower() for line in wanted} - {"vit-edge"}
    assert not [name for name in sorted(names) if not re.search(rf"^{name}==", pins, re.MULTILINE)]


def test_wheel_holds_every_file_once(tree: Path, tmp_path: Path) -> None:
    assert _package_files(_build("wheel", tree, tmp_path)) == _expected_files()


def test_wheel_from_sdist_holds_the_same(tree: Path, tmp_path: Path) -> None:
    sdist = _build("sdist", tree, tmp_path)
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
        assert not [name for name in names if "/vit_edge/export" in name or "/vit_edge/runtime" in name]
        for member in archive.getmembers():
            archive.extract(
                member, tmp_path / "unpacked", **({"filter": "data"} if sys.version_info >= (3, 12) else {})
            )
    unpacked = tmp_path / "unpacked" / sdist.name.removesuffix(".tar.gz")
    assert _package_files(_build("wheel", unpacked, tmp_path)) == _expected_files()
