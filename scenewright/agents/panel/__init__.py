"""From the answers of judges to verdicts."""
