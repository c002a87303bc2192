"""In which order answers of partitions are merged, and which of them one task has; no Dask, no answers."""

from __future__ import annotations

import numpy as np


class Tree:
    """A binary tree over partitions that halves their rows again and again.

    It depends on nothing but the rows of partitions, so that what is merged along it has the same bits wherever partitions are. A node is
    the range of its partitions, (first, end).
    """

    def __init__(self, rows):
        self._before = np.concatenate([[0], np.cumsum(rows)])

    def __len__(self) -> int:
        return len(self._before) - 1

    def rows(self, first: int, end: int) -> int:
        """The rows of a range."""
        return int(self._before[end] - self._before[first])

    def cut(self, first: int, end: int, share: float = 0.5) -> int:
        """Where a range of two partitions or more is cut so that the front has about this share of its rows."""
        want = self._before[first] + share * self.rows(first, end)
        return first + 1 + int(np.argmin(np.abs(self._before[first + 1 : end] - want)))

    def shares(self, count: int, first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Ranges for at most this many workers, with about the same number of rows. For an even number of workers they end at nodes."""
        end = len(self) if end is None else end
        if count == 1 or end - first == 1:
            return [(first, end)]
        front = count // 2
        middle = self.cut(first, end, front / count)
        return self.shares(front, first, middle) + self.shares(count - front, middle, end)

    def groups(self, most: int, first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """The largest nodes that have no more than ``most`` rows, and single partitions."""
        end = len(self) if end is None else end
        if end - first == 1 or self.rows(first, end) <= most:
            return [(first, end)]
        middle = self.cut(first, end)
        return self.groups(most, first, middle) + self.groups(most, middle, end)

    def nodes(self, within: tuple[int, int], first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """The largest nodes inside a range, which make it up."""
        end = len(self) if end is None else end
        if within[0] <= first and end <= within[1]:
            return [(first, end)]
        if end <= within[0] or within[1] <= first:
            return []
        middle = self.cut(first, end)
        return self.nodes(within, first, middle) + self.nodes(within, middle, end)

    def merged(self, node: tuple[int, int], known, merge):
        """The value of a node by ``merge(front, back, node)`` from the values that ``known(node)`` returns, or None if one is missing."""
        found = known(node)
        if found is not None:
            return found
        middle = self.cut(*node)
        front, back = self.merged((node[0], middle), known, merge), self.merged((middle, node[1]), known, merge)
        return merge(front, back, node)
