"""Totals of many judgements: values that can be added up, wherever the recordings were judged."""
