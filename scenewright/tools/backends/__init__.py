"""Image backends: diffusers pipelines, served models and image APIs."""
