"""Charts only audits of text classifiers have: tickets, survival, importance, the lens, whose texts are mistaken."""
