"""The run page: one self-contained HTML file that shows a run round by round."""
