"""Contents of an ambulance: a film in H.264, speech in Opus, and a record of signals (WFDB), all made for a run of some length.

The film is the one in the repository, encoded once without B pictures at a constant rate; the record is generated, and every frame of it
is different, so that a sample at a wrong place shows.
"""

import array
import json
import math
import pathlib
import subprocess
import sys

from gateway_compare.network import Failure

from .content_times import FPS, PACKET_S

GROUP = 25
VIDEO_BPS, SPEECH_BPS = 1_000_000, 24_000
LEADS, FREQUENCY = 12, 1_000
FILM = pathlib.Path(__file__).resolve().parent.parent.parent / "data" / "bikes.mp4"


class Content:
    """Files of a run, and what is in them."""

    def __init__(self, folder, seconds):
        self.seconds = seconds
        self.video, self.speech, self.record = folder / "video.h264", folder / "speech.opus", folder / "ekg.hea"
        if not (folder / "made").exists():
            self.make(folder)
            (folder / "made").touch()
        # A list of (bytes, true for a key picture), in order.
        self.pictures = pictures(self.video)
        self.packets = round(seconds / PACKET_S)

    def make(self, folder):
        length = ("-t", str(self.seconds))
        ffmpeg("-stream_loop", "-1", *length, "-i", str(FILM), "-an", "-vf", f"fps={FPS},scale=640:-2", "-c:v", "libx264",
               "-preset", "ultrafast", "-tune", "zerolatency", "-bf", "0", "-g", str(GROUP), "-keyint_min", str(GROUP), "-sc_threshold", "0",
               "-b:v", str(VIDEO_BPS), "-maxrate", str(VIDEO_BPS), "-bufsize", str(VIDEO_BPS // 2), "-f", "h264", str(self.video))
        ffmpeg("-f", "lavfi", *length, "-i", "sine=frequency=300:sample_rate=48000", "-c:a", "libopus", "-vbr", "off",
               "-b:a", str(SPEECH_BPS), "-frame_duration", "20", "-application", "voip", "-f", "ogg", str(self.speech))
        write_record(self.record, self.seconds)

    def offered_bps(self):
        """Mean rate of all contents, without headers."""
        video = sum(size for size, _ in self.pictures) * 8 / self.seconds
        return video + SPEECH_BPS + LEADS * FREQUENCY * 16

    def samples(self):
        return read_samples(self.record.with_suffix(".dat"))


def ffmpeg(*words):
    try:
        done = subprocess.run(("ffmpeg", "-nostdin", "-y", "-loglevel", "error", *words), capture_output=True, text=True)
    except FileNotFoundError:
        raise Failure("there is no ffmpeg here, which encodes the film and the speech: `make setup` installs it") from None
    if done.returncode != 0:
        raise Failure(f"ffmpeg: {done.stderr.strip()}")


def pictures(path):
    words = ("ffprobe", "-loglevel", "error", "-f", "h264", "-show_entries", "packet=size,flags", "-of", "json", str(path))
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failure(f"ffprobe: {done.stderr.strip()}")
    return [(int(packet["size"]), "K" in packet["flags"]) for packet in json.loads(done.stdout)["packets"]]


def write_record(header, seconds):
    """Eleven leads with a beat a second, and one that counts the frames."""
    beat = [1000 * math.exp(-(((at - 350) / 12) ** 2)) + 200 * math.exp(-(((at - 600) / 40) ** 2)) for at in range(FREQUENCY)]
    second = [[int(value * (1 - lead / 8)) for lead in range(LEADS - 1)] for value in beat]
    samples = array.array("h")
    for frame in range(seconds * FREQUENCY):
        samples.extend(second[frame % FREQUENCY])
        samples.append(frame % 60_000 - 30_000)
    if sys.byteorder == "big":
        samples.byteswap()
    header.with_suffix(".dat").write_bytes(samples.tobytes())
    names = ["i", "ii", "iii", "avr", "avl", "avf", "v1", "v2", "v3", "v4", "v5", "count"]
    lines = [f"ekg {LEADS} {FREQUENCY} {seconds * FREQUENCY}"]
    for lead, name in enumerate(names):
        own = samples[lead::LEADS]
        checksum = (sum(own) + 0x8000 & 0xFFFF) - 0x8000
        lines.append(f"ekg.dat 16 1000/mV 16 0 {own[0]} {checksum} 0 {name}")
    header.write_text("\n".join(lines) + "\n")


def read_samples(path):
    samples = array.array("h")
    if path.exists():
        data = path.read_bytes()
        samples.frombytes(data[: len(data) // 2 * 2])
    return samples
