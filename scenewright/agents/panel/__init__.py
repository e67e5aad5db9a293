"""The panel: from answers of judges to verdicts."""
