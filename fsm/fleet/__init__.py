"""Combine the judgements of many recordings, wherever the recordings were judged."""
