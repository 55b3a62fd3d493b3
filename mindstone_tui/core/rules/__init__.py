"""Rules that a person settled, and what can be checked of them when something is about to happen.

`grammar` turns a person's sentence into a `RuleCheck`, or says that it cannot; `checks` holds it
against a `Deed`, which is what a call of any agent's tool would do. No model is asked.
"""
