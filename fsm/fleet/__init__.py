"""What many judgements have come to together: values that are added up, wherever the recordings were judged."""
