"""Image backends: diffusers pipelines and image APIs."""
