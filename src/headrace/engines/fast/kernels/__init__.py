"""The instructions: functions on one long array of float32, told by offsets where to read and write."""
