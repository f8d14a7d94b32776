"""Automatic schedules, found by analysis without measurements."""

from kgen.autoscheduler.find import autoschedule, find_schedule
from kgen.autoscheduler.space import AutoSpace, auto_space
from kgen.autoscheduler.steps import Schedule

__all__ = ["AutoSpace", "Schedule", "auto_space", "autoschedule", "find_schedule"]
