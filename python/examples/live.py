"""A NumPy array stream with a plot that follows it while it runs.

An instrument sends a spectrum of 512 values ten times a second; the receiver draws the newest spectrum and the last hundred as a waterfall.
In a window with ``--show``; else every frame that was drawn goes into an animated GIF.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import anabranch
import numpy
from _plots import options, pyplot

BINS, SPECTRA, INTERVAL_S, HISTORY = 512, 40, 0.1, 100


async def measure(session: anabranch.Session) -> None:
    """Spectra of a tone that moves, in noise; what is older than a second is of no use."""
    rng = numpy.random.default_rng(1)
    frequencies = numpy.arange(BINS)
    async with await session.open("spectra", ordered=False, deadline="1 s") as stream:
        for number in range(SPECTRA):
            tone = BINS / 2 + BINS / 3 * math.sin(number / 6)
            spectrum = rng.exponential(1.0, BINS) + 40 * numpy.exp(-(((frequencies - tone) / 6) ** 2))
            await stream.send_array(10 * numpy.log10(spectrum + 0.1))
            await asyncio.sleep(INTERVAL_S)


class Screen:
    """The plot."""

    def __init__(self, plt: Any, show: bool) -> None:
        self._plt, self._show = plt, show
        self._history = numpy.full((HISTORY, BINS), -10.0)
        #: Frames of an animation, shape (height, width, 4), uint8.
        self.frames: list[Any] = []
        if plt is None:
            return
        self._figure, (top, below) = plt.subplots(2, 1, sharex=True, figsize=(6, 5), dpi=80, layout="constrained")
        [self._line] = top.plot(self._history[-1])
        top.set(ylim=(-10, 20), ylabel="dB", title="the newest spectrum, and those before it")
        self._image = below.imshow(self._history, aspect="auto", vmin=-10, vmax=20, origin="lower")
        below.set(xlabel="bin", ylabel="spectrum")
        if show:
            plt.show(block=False)

    async def show(self, spectrum: Any) -> None:
        """Shows a spectrum: in a thread of its own, so that the stream goes on; windows belong to the main thread."""
        if self._show:
            self._draw(spectrum)
        else:
            await asyncio.to_thread(self._draw, spectrum)

    def _draw(self, spectrum: Any) -> None:
        """The array is a view of the message's memory; the history is a copy."""
        self._history = numpy.roll(self._history, -1, axis=0)
        self._history[-1] = spectrum
        if self._plt is None:
            return
        self._line.set_ydata(spectrum)
        self._image.set_data(self._history)
        if self._show:
            self._plt.pause(0.001)
        else:
            self._figure.canvas.draw()
            self.frames.append(numpy.asarray(self._figure.canvas.buffer_rgba()).copy())

    def peak(self) -> int:
        """The bin of the last peak."""
        return int(self._history[-1].argmax())


async def display(session: anabranch.Session, screen: Screen) -> int:
    """Draws what arrives, and returns the number of spectra."""
    stream, count = await session.accept(), 0
    async for spectrum in stream.arrays():
        await screen.show(spectrum)
        count += 1
    return count


async def run(screen: Screen) -> int:
    """One node measures, and the other displays."""
    async with (
        anabranch.Node(bind=["127.0.0.1:0"]) as instrument,
        anabranch.Node(bind=["127.0.0.1:0"], allow=[instrument.id]) as office,
        instrument.connect(office.ticket()) as session,
    ):
        incoming = await office.accept()
        assert incoming is not None
        displaying = asyncio.create_task(display(incoming, screen))
        await measure(session)
        return await displaying


def main() -> None:
    chosen = options(__doc__, "live.gif")
    screen = Screen(pyplot(chosen.show), chosen.show)
    count = asyncio.run(run(screen))
    print(f"{count} of {SPECTRA} spectra were in time; the last peak is in bin {screen.peak()}")
    if screen.frames:
        # Comes with matplotlib.
        from PIL import Image

        first, *others = [Image.fromarray(frame).convert("RGB") for frame in screen.frames]
        first.save(chosen.file, save_all=True, append_images=others, duration=int(INTERVAL_S * 1000), loop=0)
        print(f"plot: {chosen.file}, {len(screen.frames)} frames")


main()
