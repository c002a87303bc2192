"""The order in which answers of partitions are merged, and their division into tasks."""

from __future__ import annotations

import numpy as np


class Tree:
    """A binary tree over partitions that halves their rows again and again.

    It depends only on the numbers of rows of the partitions, so merged results have the same bits wherever the
    partitions are. A node is the range of its partitions, (first, end).
    """

    def __init__(self, rows):
        self._before = np.concatenate([[0], np.cumsum(rows)])

    def __len__(self) -> int:
        return len(self._before) - 1

    def rows(self, first: int, end: int) -> int:
        """Returns the number of rows of a range."""
        return int(self._before[end] - self._before[first])

    def cut(self, first: int, end: int, share: float = 0.5) -> int:
        """Returns the partition at which to cut a range of two or more partitions, so that the front has about this share
        of the rows."""
        want = self._before[first] + share * self.rows(first, end)
        return first + 1 + int(np.argmin(np.abs(self._before[first + 1 : end] - want)))

    def shares(self, count: int, first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Returns ranges for at most ``count`` workers, with about the same number of rows. For an even number of workers
        they end at nodes."""
        end = len(self) if end is None else end
        if count == 1 or end - first == 1:
            return [(first, end)]
        front = count // 2
        middle = self.cut(first, end, front / count)
        return self.shares(front, first, middle) + self.shares(count - front, middle, end)

    def groups(self, most: int, first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Returns the largest nodes with at most ``most`` rows; larger single partitions are also nodes."""
        end = len(self) if end is None else end
        if end - first == 1 or self.rows(first, end) <= most:
            return [(first, end)]
        middle = self.cut(first, end)
        return self.groups(most, first, middle) + self.groups(most, middle, end)

    def nodes(self, within: tuple[int, int], first: int = 0, end: int | None = None) -> list[tuple[int, int]]:
        """Returns the largest nodes that together form a range."""
        end = len(self) if end is None else end
        if within[0] <= first and end <= within[1]:
            return [(first, end)]
        if end <= within[0] or within[1] <= first:
            return []
        middle = self.cut(first, end)
        return self.nodes(within, first, middle) + self.nodes(within, middle, end)

    def merged(self, node: tuple[int, int], known, merge):
        """Returns the value of a node: ``known(node)``, or if that is None, ``merge(front, back, node)`` of the values of
        its halves."""
        found = known(node)
        if found is not None:
            return found
        middle = self.cut(*node)
        front, back = self.merged((node[0], middle), known, merge), self.merged((middle, node[1]), known, merge)
        return merge(front, back, node)
