"""What people and scripts read: the JSON of debug answers, and tables for a terminal."""
