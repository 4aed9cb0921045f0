"""Figures of a run, the same for every set-up: an ADU counts if it is handed over within its lifetime, and is lost for everybody later."""

import operator

from .content import FREQUENCY, GROUP, LEADS
from .content_times import BEAT_S, FPS, LIFETIMES_S, PACKET_S

VIDEO_MS, SPEECH_MS, RECORD_MS = (LIFETIMES_S[name] * 1e3 for name in ("video", "speech", "ekg"))
# Seconds at the begin and the end of a run that do not count: the paths become known; what is on its way.
BEFORE_S, AFTER_S = 10, 2
# Seconds after a cut in which a pause counts as its consequence.
CUT_S = 5
INVALID = -32768


def video(content, ages):
    """Figures of pictures; `ages` has the age in ms at hand-over of each picture that came, by number."""
    first, last = counted(content, FPS)
    # A decoder can begin with a key picture only.
    first = -(-first // GROUP) * GROUP
    in_time = lambda number: ages.get(number, VIDEO_MS + 1) <= VIDEO_MS
    keys, others, usable, is_whole, is_there, shown = [], [], 0, False, False, []
    for number in range(first, last):
        is_key = content.pictures[number][1]
        (keys if is_key else others).append(in_time(number))
        is_whole = in_time(number) and (is_key or is_whole)
        usable += is_whole and not is_key
        is_there = number in ages and (is_key or is_there)
        if is_there:
            shown.append(ages[number])
    return {
        "i_in_time_fraction": share(sum(keys), len(keys)),
        "p_in_time_fraction": share(sum(others), len(others)),
        "p_usable_fraction": share(usable, len(others)),
        "shown_fraction": share(len(shown), last - first),
        "shown_p95_ms": float(quantile(shown, 0.95)) if shown else None,
        "shown_in_time_fraction": share(sum(age <= VIDEO_MS for age in shown), len(shown)),
        "longest_pause_ms": pause(content, ages, first, last),
    }


def speech(content, ages):
    first, last = counted(content, 1 / PACKET_S)
    came = sum(ages.get(number, SPEECH_MS + 1) <= SPEECH_MS for number in range(first, last))
    return {"speech_in_time_fraction": share(came, last - first)}


def record(content, kept):
    """Compares the samples that are kept with those that were played."""
    played = content.samples()
    same = sum(map(operator.eq, kept, played))
    holes = sum(own == INVALID for own in kept)
    return {
        "ekg_identical_fraction": share(same, len(played)),
        "ekg_in_holes": holes,
        "ekg_different": max(0, min(len(kept), len(played)) - same - holes),
        "ekg_kept_s": len(kept) / LEADS / FREQUENCY,
    }


def beats(content, ages):
    """Figures of a record that came in ADUs of 40 ms."""
    first, last = counted(content, 1 / BEAT_S)
    came = sum(ages.get(number, RECORD_MS + 1) <= RECORD_MS for number in range(first, last))
    return {"ekg_in_time_fraction": share(came, last - first)}


def counted(content, per_second):
    return round(BEFORE_S * per_second), round((content.seconds - AFTER_S) * per_second)


def pause(content, ages, first, last, times=None):
    """Longest time in ms without a picture that a decoder can use, whole or between two `times` in s of the film."""
    longest, before, expected = 0.0, None, None
    for number in sorted(ages):
        if not first <= number < last:
            continue
        is_key = content.pictures[number][1]
        if not (is_key or number == expected):
            expected = None
            continue
        expected = number + 1
        now = number / FPS * 1e3 + ages[number]
        if before is not None and (times is None or now > times[0] * 1e3 and before < times[1] * 1e3):
            longest = max(longest, now - before)
        before = max(now, before or now)
    return longest


def after_cut(content, ages, at):
    """Longest pause within seconds of a cut."""
    return pause(content, ages, 0, len(content.pictures), (at, at + CUT_S))


def quantile(values, part):
    """Smallest value that at least this part does not exceed."""
    values = sorted(values)
    return values[max(0, min(len(values) - 1, int(len(values) * part + 0.9999999) - 1))]


def share(part, whole):
    return part / whole if whole else 0.0
