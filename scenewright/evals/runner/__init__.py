"""Runner of evaluations: configuration, items, engines, cost and time estimates."""
