"""A recorded session, proved and played: from the transcript alone, writing nothing."""
