"""Schedules that analysis finds: without a human, and without a measurement."""

from kgen.autoschedule.find import autoschedule, find_schedule
from kgen.autoschedule.steps import Schedule

__all__ = ["Schedule", "autoschedule", "find_schedule"]
