"""Reference implementations: objects whose lifecycle decisions come from the shipped machines, and whose data is theirs."""
