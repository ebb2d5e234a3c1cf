.PHONY: docs live test

test: # format, lint, types, and the quick tests
	bash .ci/test

docs: # the site of the documentation, in site/; open site/index.html
	[ -x .venv/bin/sphinx-build ] || bash .ci/setup docs
	.venv/bin/sphinx-build --builder html --fresh-env --fail-on-warning --quiet docs site

live: # the tests of real containerds; needs root, downloads three versions
	bash .ci/live
