"""What audits of image and text classifiers share: groups, gaps and intervals from stored
answers."""
