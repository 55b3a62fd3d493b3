"""What people settled: rules, corrections, requests to remember, preferences, decisions.

Everything that keeps what was said asks here, so that a checkpoint, a letter, a note, an audit
and a pin never disagree about what a rule is. `recognise` reads one message, and a `Register`
holds what stands and what was superseded. No model is asked, nothing is reworded, and the same
history gives the same answer.
"""
