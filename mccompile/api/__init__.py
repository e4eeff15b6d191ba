"""What `mccompile` offers to Python: functions over whole models, their options, and errors in Python's words."""
