"""From what a data set writes as a label, an index or a name, to the model's class."""

import re
from collections.abc import Iterable, Sequence

__all__ = ["ClassNames"]


class ClassNames:
    """The classes of a model.

    Args:
        classes: How many there are.
        names: Their names, or nothing.
    """

    def __init__(self, classes: int, names: Sequence[str] = ()) -> None:
        self.classes = classes
        self._named: dict[str, list[int]] = {}
        for index, name in enumerate(names):
            self._named.setdefault(name.strip(), []).append(index)

    def column(self, texts: Sequence[str]) -> tuple[list[int | str], str]:
        """Read all labels of a data set together: "3" may be the name of a class and the index of another.

        Returns:
            For every text the class, or in words what is wrong with it; and how they were read. If all are
            names they are names, else if all are indices they are indices, else each is read on its own.
        """
        distinct = set(texts)
        if all(text in self._named for text in distinct):
            return [self._by_name(text) for text in texts], "name"
        if all(self._index(text) is not None for text in distinct):
            return [self._by_index(text) for text in texts], "index"
        mixed = [self._by_name(text) if text in self._named else self._by_index(text) for text in texts]
        return mixed, "name or index"

    def any(self, texts: Iterable[str]) -> bool:
        """Is one of them a name or an index of a class?"""
        return any(text in self._named or self._index(text) is not None for text in texts)

    def _by_name(self, text: str) -> int | str:
        indices = self._named[text]
        if len(indices) > 1:
            return f"label {text[:80]!r} is the name of the classes {', '.join(map(str, indices))}: give the index"
        return indices[0]

    def _index(self, text: str) -> int | None:
        if re.fullmatch(r"[0-9]{1,9}", text) is None:
            return None
        return int(text) if int(text) < self.classes else None

    def _by_index(self, text: str) -> int | str:
        index = self._index(text)
        if index is not None:
            return index
        if not text:
            return "no label"
        expected = f"an index of 0..{self.classes - 1}" + (" or a class name" if self._named else "")
        return f"unknown label {text[:80]!r}, expected {expected}"
