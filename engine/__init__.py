"""PruneAudit: if we cut these heads, who pays, and how sure are we?"""

__version__ = "0.1.0"
