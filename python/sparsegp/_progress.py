"""Progress on standard error or by tqdm, and the callbacks of a fit."""

from __future__ import annotations

import sys


class Progress:
    """The progress display of a fit: a bar if tqdm is installed, otherwise a line for each stage and every tenth of the
    epochs."""

    def __init__(self):
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self.tqdm, self.bar, self.shown = tqdm, None, 0

    def show(self, event: dict) -> None:
        """Show a stage or an epoch."""
        if "stage" in event:
            if not event["stage"].startswith("warm start") or "iteration " not in event["stage"]:
                self._line(event["stage"])
            return
        score = event["validation_nll"]
        text = f"objective {event['objective']:.5g}" + ("" if score is None else f"  validation NLL {score:.5g}")
        if self.tqdm is not None:
            if self.bar is None:
                self.bar = self.tqdm(total=event["epochs"], unit="epoch")
            self.bar.update(event["epoch"] - self.bar.n)
            self.bar.set_postfix_str(text)
            return
        part = event["epoch"] * 10 // max(event["epochs"], 1)
        if part != self.shown:
            self.shown = part
            self._line(f"epoch {event['epoch']} of at most {event['epochs']}  {text}  {event['seconds']:.1f} s")

    def _line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Close the bar and leave it on the screen."""
        if self.bar is not None:
            self.bar.close()


def listener(progress: Progress | None, callbacks):
    """Returns the function that the engine calls with every event, and that returns True to end training; None if there
    is nothing to call."""
    if progress is None and not callbacks:
        return None

    def hear(event: dict) -> bool:
        if progress is not None:
            progress.show(event)
        if "stage" in event:
            return False
        answers = [callback(event) for callback in callbacks]
        return any(answer is True for answer in answers)

    return hear
