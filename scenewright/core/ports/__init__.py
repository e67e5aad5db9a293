"""The ports: what judges, image backends, composers, detectors, extractors and scorers of realism
must do, with their requests, replies and errors."""
