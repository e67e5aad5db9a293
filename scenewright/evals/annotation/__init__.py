"""Photos and detections to scene graphs, by a panel of multimodal language models."""
