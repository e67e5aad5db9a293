"""Scene graphs from photos and detections, by a panel of multimodal language models."""
