"""Experiments of the lab, run by the program ``anabranch lab`` of the wheel, with their figures as tables.

::

    result = anabranch.lab.run("smartpointer", traces=["lte.csv", "wifi.csv"], seeds=3)
    result.figures.groupby("algorithm")["met_fraction"].mean()      # a data frame of pandas
    result.array("stream")                                          # the same as a structured array of NumPy

Experiments run in virtual time: the same seed gives the same figures. ``docs/results/`` describes what they measure.
"""

from ._experiments import Experiment, experiments, run, run_async
from ._result import Result

__all__ = ["Experiment", "Result", "experiments", "run", "run_async"]
