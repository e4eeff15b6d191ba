"""The report as one page of HTML, and pictures of it."""
