"""The reference implementation: objects whose lifecycle is a machine's, and whose data are their own.

What may happen, what follows, and what is replied is read from the machine
(:mod:`fsm.machine.driver`); the code here adds records, files and messages.
"""
