"""Create the files that a user starts with: a model, properties that it has, and a test.

They are made from scratch, from a machine of the ``transitions`` library, or from a drawing. The properties are proved
to hold for the model, and an error in the model would break them (:mod:`fsm.mutation.suggestions`).
"""
