"""The intermediate representations: types, expressions, graph, kernel and program IR, their text and verifiers."""
