"""What the application's inputs and outputs are to the model's: bytes of a camera, bytes instead of floats."""
