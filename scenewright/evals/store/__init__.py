"""What evaluations keep: answers, scores, tables, manifests."""
