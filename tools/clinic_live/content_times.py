"""Times, sizes and lifetimes of contents, for the programs of a comparison and for its figures."""

FPS = 25
# Time of a packet of speech, and of an ADU of the record, in seconds.
PACKET_S, BEAT_S = 0.02, 0.04
SPEECH_BYTES = 60
# Twelve leads of 16 bit at 1 kHz.
RECORD_BYTES = 960
LIFETIMES_S = {"video": 0.8, "speech": 0.4, "ekg": 30.0}
