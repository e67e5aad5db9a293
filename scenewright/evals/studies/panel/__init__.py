"""Studies of panels: how much their verdicts can be trusted."""
