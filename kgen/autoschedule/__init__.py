"""Schedules that analysis finds: without a human, and without a measurement."""

from kgen.autoschedule.find import autoschedule, find_schedule
from kgen.autoschedule.space import AutoSpace, auto_space
from kgen.autoschedule.steps import Schedule

__all__ = ["AutoSpace", "Schedule", "auto_space", "autoschedule", "find_schedule"]
