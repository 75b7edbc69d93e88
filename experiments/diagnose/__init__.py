"""Why gold was missed: every missed passage or statement of a run, each with one cause."""
