"""Static memory allocation as pure functions on intervals: who lives where in one arena."""
