"""What passes on kernel IR have in common: steps, views through copies, the planner's word."""
