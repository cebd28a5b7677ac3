"""What linters accept in template.yaml and AWS refuses, or what would be open: read from the template itself."""
