"""A model or a recording as a self-contained HTML page.

The possible next steps are computed here from the tables.  The page's script looks them up.
"""
