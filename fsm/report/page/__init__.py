"""A model or a recording as a page to look at: one HTML file that asks for nothing from elsewhere.

What may happen next is worked out here, from the tables; the script of the page looks it up.
"""
