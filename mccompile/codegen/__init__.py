"""Program IR to C source, headers and the weights blob."""
