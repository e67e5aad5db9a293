"""What an evaluation found, as static pages, tables and comparisons."""
