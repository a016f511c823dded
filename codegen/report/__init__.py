"""What people and other programs read: tables, JSON, SARIF, HTML and explanations, all from the same scan and plan."""
