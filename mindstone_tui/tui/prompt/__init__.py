"""Where a person writes: completion, history, folded pastes, vim keys."""
