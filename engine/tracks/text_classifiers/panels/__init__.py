"""Charts only audits of text classifiers have: tickets, survival, importance, the lens, mistaken
texts per group."""
