"""All sessions under one home: listed, searched, counted, imported. It knows no live session."""
