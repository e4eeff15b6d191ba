"""The attack on the compiler by what is drawn: networks, files, texts, blobs (`make fuzz`, docs/testing.md)."""
