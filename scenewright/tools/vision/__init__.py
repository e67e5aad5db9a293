"""Reading pictures: detection, extraction of scene graphs, realism of objects."""
