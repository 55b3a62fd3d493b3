"""The agent without a screen: history, working set, recall, models and tools."""
