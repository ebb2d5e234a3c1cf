"""What somebody begins with: a model, properties that it has, and a test, as text.

It comes from nothing, from a machine of the library transitions, or from a drawing.  The properties are some that the
model is proved to have and that a mistake in it would break (:mod:`fsm.mutation.suggestions`).
"""
