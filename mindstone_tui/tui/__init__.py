"""The terminal app: it draws what a `Conversation` announces and passes on what a person does."""

import os

# A key waits for the next picture, and Textual makes at most 60 a second unless it is told
# otherwise, which it reads once, when it is imported. A picture is made only when something
# changed: nothing else is drawn more often for it.
os.environ.setdefault("TEXTUAL_FPS", "240")
