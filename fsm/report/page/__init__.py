"""A model or a recording as a page to look at: one HTML file that loads nothing from elsewhere.

The possible next steps are computed here, from the tables; the page's script looks them up.
"""
