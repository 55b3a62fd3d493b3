"""The terminal app: it draws what a `Conversation` announces and passes on what a person does."""
