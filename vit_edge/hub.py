"""Checkpoints named by a Hugging Face Hub id: `hf:owner/name`, `hf:owner/name@revision`, `hf:owner/name/file`.

Config and safetensors are fetched into huggingface_hub's ordinary cache; what is there already is used without a
network. Pickled weights (`.bin`, `.pth`) are fetched only when a file is asked for by name, and then read with
`weights_only`.
"""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

from vit_edge.runtime.errors import ConfigError

__all__ = ["Fetched", "fetch", "is_hub_id"]

_PREFIX = "hf:"
_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?:/(?P<file>[\w.-]+))?")
_PATTERNS = ["config.json", "preprocessor_config.json", "model*.safetensors", "model.safetensors.index.json"]
_TIMEOUT = 10.0  # seconds until the cache is used instead


@dataclass(frozen=True, slots=True)
class Fetched:
    """A local folder or file, and the repository and commit that it is a copy of."""

    path: Path
    repository: str
    revision: str


def is_hub_id(checkpoint: str) -> bool:
    """Does the text name a repository rather than a path?"""
    return checkpoint.startswith(_PREFIX)


def fetch(checkpoint: str) -> Fetched:
    """Fetch a checkpoint from the Hub, or find it in the cache.

    Args:
        checkpoint: `hf:owner/name[@revision][/file]`.

    Raises:
        ConfigError: the id is malformed, the repository or file does not exist, or there is neither network nor cache.
    """
    match = _ID.fullmatch(checkpoint.removeprefix(_PREFIX))
    if match is None:
        raise ConfigError(f"{checkpoint}: expected hf:owner/name, hf:owner/name@revision or hf:owner/name/file")
    repository, revision, file = match["repo"], match["revision"], match["file"]
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        path = _get(repository, revision, file)
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"{checkpoint}: not in the local cache and cannot be fetched ({first}): "
            "check the name and the network, or give a local folder"
        ) from error
    return Fetched(path, repository, (path if file is None else path.parent).name)


def _get(repository: str, revision: str | None, file: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    def download(*, local_only: bool) -> Path:
        if file is not None:
            return Path(
                huggingface_hub.hf_hub_download(
                    repository, file, revision=revision, etag_timeout=_TIMEOUT, local_files_only=local_only
                )
            )
        folder = huggingface_hub.snapshot_download(
            repository,
            revision=revision,
            allow_patterns=_PATTERNS,
            etag_timeout=_TIMEOUT,
            local_files_only=local_only,
        )
        return Path(folder)

    if revision is not None and re.fullmatch("[0-9a-f]{40}", revision):  # a commit never changes: no need to ask
        with contextlib.suppress(LocalEntryNotFoundError):
            return download(local_only=True)
    return download(local_only=False)
