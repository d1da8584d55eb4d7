"""What people and their programs read: the JSON of debug answers, and tables for a terminal."""
