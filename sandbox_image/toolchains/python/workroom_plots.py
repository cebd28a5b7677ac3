"""A matplotlib backend without a screen: ``show()`` writes what a window would show.

``plt.show()`` saves every open figure as ``plot-1.png``, ``plot-2.png``, … in the working folder and closes them,
as closing the windows would. No existing file is ever overwritten: the first free number is taken. A figure shown
without blocking (``show(block=False)``, ``plt.pause``) is saved once, as it looks when it is closed or the program
ends. Everything else is Agg.
"""

# mypy: disable-error-code="import-not-found, misc"
# matplotlib is in the root, not where this file is checked.

import os
from typing import Any

from matplotlib import _api
from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends import backend_agg


def _save(figure: Any) -> None:
    number = 1
    while True:
        name = f"plot-{number}.png"
        try:
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(handle, "wb") as file:
            figure.savefig(file, format="png")
        return


class FigureManager(FigureManagerBase):
    _shown = False

    def show(self) -> None:
        self._shown = True

    def destroy(self, *args: object) -> None:
        if self._shown:
            self._shown = False
            _save(self.canvas.figure)

    @classmethod
    def pyplot_show(cls, *, block: bool | None = None) -> None:
        managers = Gcf.get_all_fig_managers()
        for manager in managers:
            manager.show()
        if block is None or block:
            for manager in managers:
                Gcf.destroy(manager)


class FigureCanvas(backend_agg.FigureCanvasAgg):
    manager_class = _api.classproperty(lambda cls: FigureManager)

    def start_event_loop(self, timeout: float = 0) -> None:
        # Nobody can press a key: waiting without an end would only wait for the time limit.
        if timeout and timeout > 0:
            super().start_event_loop(timeout)
