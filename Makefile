.PHONY: live test

test: # format, lint, types, and the quick tests
	bash .ci/test

live: # what talks to a real containerd; needs root, downloads three versions
	bash .ci/live
