"""The files that a user begins with, as text: a model, properties that it has, and a test.

They are made from nothing, from a machine of the library transitions, or from a drawing. The properties are proved of
the model, and an error in the model would break them (:mod:`fsm.mutation.suggestions`).
"""
