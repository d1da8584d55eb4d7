"""Pure matching: functions of immutable objects that return evidence."""
