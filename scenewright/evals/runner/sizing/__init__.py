"""Time, machines, cost and bottleneck of a study, computed from measured figures."""
