"""Results of evaluations as static pages, tables and comparisons."""
